import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS
import CUV
import Glibc

/// An IPv4 address and a port, for sockets that choose their own side of a connection: a service with several workers
/// spreads connections over them by both sides' addresses, so that choosing one is choosing the worker.
@safe struct SocketName {
  private var name: sockaddr_in

  /// Nil for what is no IPv4 address in numbers.
  init?(_ text: HostPort) {
    var name = sockaddr_in()
    guard unsafe inet_pton(AF_INET, text.host, &name.sin_addr) == 1 else { return nil }
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = text.port.bigEndian
    self.name = name
  }

  /// Begins to connect, as `Socket.connect` does.
  func connect(from source: SocketName?, loop: EventLoop) throws -> Socket {
    let descriptor = Glibc.socket(
      AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw Self.failure("socket") }
    if let source {
      // The connection before it from the same place may not be forgotten yet.
      var isOn: Int32 = 1
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, 4)
      guard unsafe source.use(bind, descriptor) == 0 else {
        defer { close(descriptor) }
        throw Self.failure("bind")
      }
    }
    guard unsafe use(Glibc.connect, descriptor) == 0 || errno == EINPROGRESS else {
      defer { close(descriptor) }
      throw Self.failure("connect")
    }
    let socket = try Socket(adopting: descriptor, loop: loop)
    socket.setNoDelay(true)
    return socket
  }

  private func use(
    _ call: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ descriptor: Int32
  ) -> Int32 {
    unsafe withUnsafePointer(to: name) { name in
      unsafe name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        unsafe call(descriptor, name, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  private static func failure(_ call: String) -> CommandFailure {
    CommandFailure(.unavailable, "\(call): \(unsafe String(cString: strerror(errno)))")
  }
}

/// Where the binary interface is, and who the provider is.
struct BinaryEndpoint {
  var address: SocketName
  var context: TLSContext

  /// - Parameter verifies: Whether the service's certificate is looked at.
  init(_ invocation: Invocation, verifies: Bool = true) throws(CommandFailure) {
    let host = invocation.value(BenchOptions.gateway)
    guard let address = SocketName(host) else {
      throw invocation.failure(about: BenchOptions.gateway, "\(host.host) is no IPv4 address")
    }
    self.address = address
    let trusted = try invocation.pem(BenchOptions.authority)
    let identity = TLSIdentity(
      certificateChainPEM: try invocation.pem(BenchOptions.certificate),
      privateKeyPEM: try invocation.pem(BenchOptions.certificateKey))
    do throws(TLSError) {
      context = try TLSContext(
        client: TLSClientConfiguration(
          trustRoots: .authorities(PEM: trusted), identity: identity,
          // The address is in numbers; what is measured stands on this machine.
          verifiesHost: false, keepsSessions: false, insecureSkipVerify: !verifies))
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}

extension Invocation {
  fileprivate func pem(_ option: Option<String>) throws(CommandFailure) -> [UInt8] {
    Array(try readText(try require(option)).utf8)
  }

  /// The places to connect from.
  func sources() throws(CommandFailure) -> [SocketName] {
    var names: [SocketName] = []
    for text in all(BenchOptions.source) {
      guard let name = SocketName(text) else {
        throw failure(about: BenchOptions.source, "\(text.host) is no IPv4 address")
      }
      names.append(name)
    }
    return names
  }
}
