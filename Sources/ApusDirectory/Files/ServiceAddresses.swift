package import ApusLoop
package import ApusModel
import ApusTrust
import Glibc

/// Where the service of a data directory listens, for commands on the same machine.
///
/// The file has a line for each address, `listener environment address`, one for each name in the server's certificate,
/// `name NAME`, and `process PID`. If a listener presents another authority's certificate, a name of that one follows
/// the address. The service keeps it locked, so that what a killed one left behind is not believed.
package struct ServiceAddresses: Sendable, Hashable {
  package struct Listener: Sendable, Hashable {
    package var kind: ListenerKind
    package var environment: Environment
    package var address: SocketAddress
    /// A name in the certificate that it presents in place of the service's own; nil for that.
    package var serverName: String?

    package init(
      _ kind: ListenerKind, _ environment: Environment, _ address: SocketAddress,
      serverName: String? = nil
    ) {
      (self.kind, self.environment, self.address) = (kind, environment, address)
      self.serverName = serverName
    }

    fileprivate var line: String {
      let name = serverName.map { " \($0)" } ?? ""
      return "\(kind.rawValue) \(environment.name) \(address)\(name)"
    }
  }

  package var listeners: [Listener]
  package var names: [String]
  /// The id of its process.
  package var process: Int32?

  package init(listeners: [Listener], names: [String], process: Int32? = nil) {
    self.listeners = listeners
    self.names = names
    self.process = process
  }

  init(text: String) {
    self.init(listeners: [], names: [])
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ").map(String.init)
      if words.count == 2, words[0] == "name" {
        names.append(words[1])
      } else if words.count == 2, words[0] == "process" {
        process = Int32(words[1])
      } else if (3...4).contains(words.count), let kind = ListenerKind(rawValue: words[0]),
        let environment = Environment(name: words[1]), let address = try? SocketAddress(words[2])
      {
        listeners.append(
          Listener(kind, environment, address, serverName: words.count == 4 ? words[3] : nil))
      }
    }
  }

  var text: String {
    let lines =
      listeners.map(\.line) + names.map { "name \($0)" } + (process.map { ["process \($0)"] } ?? [])
    return lines.joined(separator: "\n") + "\n"
  }

  /// The host and the port at which a client on this machine reaches a listener, and finds a name in its certificate:
  /// of the production environment, if both have one. Nil if there is no such listener.
  package func endpoint(_ kind: ListenerKind) -> (host: String, port: UInt16)? {
    let found = listeners.filter { $0.kind == kind }
    let listener = found.first { $0.environment == .production } ?? found.first
    guard let address = listener?.address else { return nil }
    let (host, port) = (address.hostText, address.port)
    if let name = listener?.serverName { return (name, port) }
    let isLocal = address.isEverywhere || address.isThisMachine
    if isLocal, names.contains("localhost") { return ("localhost", port) }
    if names.contains(host) { return (host, port) }
    return (names.first ?? (isLocal ? "localhost" : host), port)
  }
}

/// The file of a running service. Deleted with it; after a kill, its lock is gone.
package final class ServiceAddressFile: Sendable {
  private let path: String
  private let descriptor: Int32

  init(_ addresses: ServiceAddresses, path: String) throws(FileError) {
    self.path = path
    descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw FileError(path: path, operation: "open", code: errno) }
    // A reader holds the lock for a moment, another service of the directory for as long as it runs.
    guard lockFile(descriptor, waitMilliseconds: 100), ftruncate(descriptor, 0) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      throw FileError(path: path, operation: "lock", code: code)
    }
    let bytes = Array(addresses.text.utf8)
    _ = unsafe bytes.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
  }

  package func remove() {
    unsafe unlink(path)
  }

  deinit { Glibc.close(descriptor) }
}

extension DataDirectory {
  /// The names in the service's own certificate; empty if it cannot be read.
  package var serverNames: [String] {
    (try? serverCertificate().serverNames) ?? []
  }

  private var addressFile: String { "\(path)/service.addresses" }

  /// Tells commands on this machine where the service listens, until the result is removed.
  package func announce(_ addresses: ServiceAddresses) throws(FileError) -> ServiceAddressFile {
    try ServiceAddressFile(addresses, path: addressFile)
  }

  /// Where the service of this directory listens; nil if none runs on this machine, or this user may not know.
  package var serviceAddresses: ServiceAddresses? {
    let descriptor = unsafe open(addressFile, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    // A free lock means that the service is gone.
    guard flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return nil }
    return (try? Files.readText(addressFile)).map(ServiceAddresses.init(text:))
  }
}
