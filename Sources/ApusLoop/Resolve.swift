import CUV
import Glibc

extension SocketAddress {
  /// The addresses of a host, in the order to try them (RFC 6724), for a stream socket.
  ///
  /// Blocks the calling thread until the resolver answers, which may take many seconds: for set-up and tools, never on
  /// a loop.
  package static func resolve(host: String, port: UInt16) throws(SocketError) -> [SocketAddress] {
    var hints = unsafe streamHints()
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &list)
    guard code == 0 else {
      let reason =
        code == EAI_SYSTEM ? errorText(errno) : unsafe String(cString: gai_strerror(code))
      throw .unresolved(host: host, reason: reason)
    }
    defer { unsafe freeaddrinfo(list) }
    return unsafe addresses(list, port: port)
  }

  /// The same without blocking: `completion` is called once, on the loop. Confined.
  package static func resolve(
    host: String, port: UInt16, on loop: EventLoop,
    completion: @escaping (Result<[SocketAddress], SocketError>) -> Void
  ) {
    loop.preconditionConfined()
    let resolution = Resolution(host: host, port: port, completion: completion)
    guard loop.takesHandles else { return resolution.fail(.loopStopped, on: loop) }
    var hints = unsafe streamHints()
    unsafe resolution.request.pointee.data = Unmanaged.passRetained(resolution).toOpaque()
    let code = unsafe uv_getaddrinfo(
      loop.uv, resolution.request, resolutionEnds, host, nil, &hints)
    guard code == 0 else {
      unsafe Unmanaged.passUnretained(resolution).release()
      return resolution.fail(.unresolved(host: host, reason: errorText(-code)), on: loop)
    }
  }

  private static func streamHints() -> addrinfo {
    var hints = unsafe addrinfo()
    unsafe hints.ai_family = AF_UNSPEC
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    return unsafe hints
  }

  fileprivate static func addresses(
    _ list: UnsafeMutablePointer<addrinfo>?, port: UInt16
  ) -> [SocketAddress] {
    var found: [SocketAddress] = []
    var next = unsafe list
    while let entry = unsafe next {
      if let raw = unsafe entry.pointee.ai_addr, let address = unsafe SocketAddress(raw) {
        found.append(address.with(port: port))
      }
      unsafe next = entry.pointee.ai_next
    }
    return found
  }
}

/// A pending lookup on libuv's thread pool; libuv's request retains it until the end.
@safe
private final class Resolution: @unchecked Sendable {
  let host: String
  let port: UInt16
  let request = UnsafeMutablePointer<uv_getaddrinfo_t>.allocate(capacity: 1)
  private let completion: (Result<[SocketAddress], SocketError>) -> Void

  init(
    host: String, port: UInt16,
    completion: @escaping (Result<[SocketAddress], SocketError>) -> Void
  ) {
    self.host = host
    self.port = port
    self.completion = completion
  }

  deinit { unsafe request.deallocate() }

  func end(_ status: Int32, _ list: UnsafeMutablePointer<addrinfo>?) {
    guard status == 0 else {
      return completion(.failure(.unresolved(host: host, reason: errorText(-status))))
    }
    completion(.success(unsafe SocketAddress.addresses(list, port: port)))
  }

  /// In a later turn, so that callers always see the same order of events. On the loop: this makes the class Sendable.
  func fail(_ error: SocketError, on loop: EventLoop) {
    loop.perform { self.completion(.failure(error)) }
  }
}

private func resolutionEnds(
  _ request: UnsafeMutablePointer<uv_getaddrinfo_t>?, _ status: Int32,
  _ list: UnsafeMutablePointer<addrinfo>?
) {
  defer { if unsafe list != nil { unsafe uv_freeaddrinfo(list) } }
  guard let data = unsafe request?.pointee.data else { return }
  let resolution = unsafe Unmanaged<Resolution>.fromOpaque(data).takeRetainedValue()
  unsafe resolution.end(status, list)
}
