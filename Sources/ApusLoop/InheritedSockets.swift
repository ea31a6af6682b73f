import Glibc

/// A listening TCP socket that the process inherited.
package struct InheritedSocket: Sendable, Hashable {
  package var descriptor: Int32
  /// Its name at the service manager: `FileDescriptorName=` of a systemd socket unit.
  package var name: String
  package var address: SocketAddress
  /// Whether it is an IPv6 socket that accepts IPv4 connections, too.
  package var takesIPv4: Bool

  package init(descriptor: Int32, name: String, address: SocketAddress, takesIPv4: Bool = false) {
    self.descriptor = descriptor
    self.name = name
    self.address = address
    self.takesIPv4 = takesIPv4
  }
}

/// Sockets that a service manager opened before it started the process, and keeps when the process ends
/// (sd_listen_fds(3)). Connections wait in the kernel meanwhile, and none is refused.
package enum InheritedSockets {
  /// SD_LISTEN_FDS_START: the first descriptor after standard error.
  static let firstDescriptor: Int32 = 3
  /// Eight listeners on eight addresses each.
  static let countLimit = 64

  /// The sockets of this process; empty if it inherited none.
  package static func take(
    _ environment: [String: String], process: Int32 = getpid()
  ) throws(InheritedSocketError) -> [InheritedSocket] {
    try take(environment, process: process, first: firstDescriptor)
  }

  static func take(
    _ environment: [String: String], process: Int32, first: Int32
  ) throws(InheritedSocketError) -> [InheritedSocket] {
    var sockets: [InheritedSocket] = []
    for name in try names(environment, process: process) {
      sockets.append(try examine(first + Int32(sockets.count), name))
    }
    return sockets
  }

  /// The name of each socket, in the order of their descriptors.
  static func names(
    _ environment: [String: String], process: Int32
  ) throws(InheritedSocketError) -> [String] {
    // A child inherits the variables but not the sockets: LISTEN_PID shows whether they are for this process.
    guard let text = environment["LISTEN_FDS"], environment["LISTEN_PID"] == "\(process)" else {
      return []
    }
    guard let count = Int(text), 0...countLimit ~= count else { throw .badCount(text) }
    // The default name of sd_listen_fds_with_names(3).
    guard let list = environment["LISTEN_FDNAMES"] else {
      return Array(repeating: "unknown", count: count)
    }
    let names = list.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard count > 0 else { return [] }
    guard names.count == count else { throw .badNames(list, count: count) }
    return names
  }

  private static func examine(
    _ descriptor: Int32, _ name: String
  ) throws(InheritedSocketError) -> InheritedSocket {
    let address = unsafe SocketAddress { unsafe getsockname(descriptor, $0, $1) }
    guard let address, option(descriptor, SOL_SOCKET, SO_ACCEPTCONN) == 1,
      option(descriptor, SOL_SOCKET, SO_PROTOCOL) == Int32(IPPROTO_TCP),
      fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
    else { throw .notListening(descriptor: descriptor, name: name) }
    return InheritedSocket(
      descriptor: descriptor, name: name, address: address,
      takesIPv4: address.family == .ipv6
        && option(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY) == 0)
  }

  private static func option(_ descriptor: Int32, _ level: Int32, _ option: Int32) -> Int32? {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard unsafe getsockopt(descriptor, level, option, &value, &size) == 0 else { return nil }
    return value
  }
}

/// Why inherited sockets cannot be used.
package enum InheritedSocketError: Error, Hashable, Sendable {
  case badCount(String)
  case badNames(String, count: Int)
  case notListening(descriptor: Int32, name: String)
  /// Two sockets have the same address.
  case duplicate(SocketAddress)
  case unmatched(InheritedSocket, listeners: [String])
  /// Several listeners have its name, with different settings, and none has its address.
  case ambiguous(InheritedSocket)
  /// A listener got it by name, but another one is configured for its address.
  case claimedTwice(SocketAddress, listeners: [String])
}

extension InheritedSocketError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .badCount(let text):
      "LISTEN_FDS is \"\(text)\": it must be a number of sockets from 0 to "
        + "\(InheritedSockets.countLimit)"
    case .badNames(let list, let count):
      "LISTEN_FDNAMES is \"\(list)\": it must have \(count) names separated by colons, "
        + "one for each socket of LISTEN_FDS"
    case .notListening(let descriptor, let name):
      "inherited descriptor \(descriptor) (\(name)) is not a listening TCP socket: write "
        + "ListenStream= with an address and a port, and Accept=no, in the socket unit"
    case .duplicate(let address):
      "two inherited sockets have the address \(address): configure it only once"
    case .unmatched(let socket, let listeners):
      "no listener has the name or the address of inherited socket \(socket): set "
        + "FileDescriptorName= to one of \(listeners.joined(separator: ", ")), or use an address "
        + "that the service is configured for"
    case .ambiguous(let socket):
      "several listeners with different modifiers have the name of inherited socket \(socket): "
        + "use the address of one of them"
    case .claimedTwice(let address, let listeners):
      "inherited socket \(address) belongs to \(listeners[0]) by its name, but "
        + "\(listeners[1]) is configured for that address: change one of them"
    }
  }
}

extension InheritedSocket: CustomStringConvertible {
  package var description: String { "\(address) (\(name))" }
}
