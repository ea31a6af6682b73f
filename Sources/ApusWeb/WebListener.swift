import CMicroHTTPD
import Glibc

func systemText(_ code: Int32) -> String { unsafe String(cString: strerror(code)) }

/// A listening socket.
struct WebListener: Sendable {
  let descriptor: Int32
  /// The path of a UNIX socket, removed with it.
  let path: String?
  /// The bound port; nil for a UNIX socket.
  let port: UInt16?

  private static let backlog: Int32 = 128

  init(_ endpoint: WebServerConfiguration.Endpoint) throws(WebError) {
    switch endpoint {
    case .unix(let path): try self.init(unix: path)
    case .tcp(let host, let port): try self.init(host: host, port: port)
    case .inherited(let descriptor, let port): try self.init(sharing: descriptor, port: port)
    }
  }

  func close() {
    if let path { unsafe _ = unlink(path) }
    Glibc.close(descriptor)
  }

  // MARK: UNIX sockets

  /// Replaces the stale socket of a service that has ended; fails if another service listens on it.
  private init(unix path: String) throws(WebError) {
    var (address, size) = try Self.address(of: path)
    try Self.makeRoom(at: path, &address, size)
    let descriptor = try Self.socket(AF_UNIX, path)
    // The file's mode decides who may connect. `bind` takes it from the descriptor, so it is right from the beginning.
    guard fchmod(descriptor, 0o600) == 0,
      Self.bind(descriptor, &address, size) == 0, unsafe chmod(path, 0o600) == 0,
      listen(descriptor, Self.backlog) == 0
    else { throw Self.failure("listen on", path, closing: descriptor) }
    self.descriptor = descriptor
    self.path = path
    port = nil
  }

  private static func address(of path: String) throws(WebError) -> (sockaddr_un, socklen_t) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let limit = MemoryLayout.size(ofValue: address.sun_path) - 1
    guard bytes.count <= limit else { throw .pathTooLong(path: path, limit: limit) }
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    return (address, socklen_t(MemoryLayout<sockaddr_un>.size))
  }

  private static func makeRoom(
    at path: String, _ address: inout sockaddr_un, _ size: socklen_t
  ) throws(WebError) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path: path) }
    let probe = try socket(AF_UNIX, path)
    defer { Glibc.close(probe) }
    let code = unsafe withUnsafePointer(to: &address) { address in
      unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(probe, $0, size) == 0 ? 0 : errno
      }
    }
    switch code {
    // Nobody listens: a killed service left the socket.
    case ECONNREFUSED:
      guard unsafe unlink(path) == 0 || errno == ENOENT else {
        throw .system(operation: "remove", address: path, code: errno)
      }
    case ENOENT: return
    // EAGAIN: the backlog is full, so another process listens.
    case 0, EAGAIN: throw .socketTaken(path: path)
    default: throw .system(operation: "connect to", address: path, code: code)
    }
  }

  // MARK: TCP

  private init(host: String, port: UInt16) throws(WebError) {
    let text = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    var hints = unsafe addrinfo()
    unsafe hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
    unsafe hints.ai_socktype = 1  // SOCK_STREAM
    var found: UnsafeMutablePointer<addrinfo>?
    guard unsafe getaddrinfo(host, String(port), &hints, &found) == 0,
      let address = unsafe found
    else { throw .badAddress(text) }
    defer { unsafe freeaddrinfo(address) }
    let descriptor = try unsafe Self.socket(address.pointee.ai_family, text)
    var on: Int32 = 1
    let size = socklen_t(MemoryLayout<Int32>.size)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, size)
    if unsafe address.pointee.ai_family == AF_INET6 {
      unsafe setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &on, size)
    }
    guard
      unsafe Glibc.bind(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0,
      listen(descriptor, Self.backlog) == 0
    else { throw Self.failure("listen on", text, closing: descriptor) }
    self.descriptor = descriptor
    path = nil
    self.port = Self.port(of: descriptor)
  }

  private init(sharing listening: Int32, port: UInt16) throws(WebError) {
    let descriptor = fcntl(listening, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else {
      throw .system(operation: "duplicate", address: "port \(port)", code: errno)
    }
    guard fcntl(descriptor, F_SETFL, 0o4000) == 0 else {  // O_NONBLOCK
      throw Self.failure("configure", "port \(port)", closing: descriptor)
    }
    self.descriptor = descriptor
    path = nil
    self.port = port
  }

  private static func port(of descriptor: Int32) -> UInt16 {
    var storage = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return unsafe withUnsafeMutablePointer(to: &storage) { storage in
      _ = unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(descriptor, $0, &size)
      }
      // The port has the same offset in both families.
      return unsafe storage.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
        unsafe UInt16(bigEndian: $0.pointee.sin_port)
      }
    }
  }

  // MARK: Both

  private static func socket(_ family: Int32, _ text: String) throws(WebError) -> Int32 {
    // SOCK_STREAM, SOCK_CLOEXEC and SOCK_NONBLOCK, which have different types in Glibc and other modules.
    let descriptor = Glibc.socket(family, 1 | 0o2000000 | 0o4000, 0)
    guard descriptor >= 0 else { throw .system(operation: "open", address: text, code: errno) }
    return descriptor
  }

  private static func bind(
    _ descriptor: Int32, _ address: inout sockaddr_un, _ size: socklen_t
  ) -> Int32 {
    unsafe withUnsafePointer(to: &address) { address in
      unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe Glibc.bind(descriptor, $0, size)
      }
    }
  }

  private static func failure(
    _ operation: String, _ text: String, closing descriptor: Int32
  ) -> WebError {
    let code = errno
    Glibc.close(descriptor)
    return .system(operation: operation, address: text, code: code)
  }
}
