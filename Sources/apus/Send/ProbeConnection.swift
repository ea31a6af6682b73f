import ApusLoop
import ApusTLS
import ApusTrust
import Glibc

/// Why a step of a connection failed.
struct ProbeProblem: Error {
  var text: String
}

/// Connects step by step, on a thread that may block.
final class ProbeConnection {
  struct Facts {
    var version: String
    var applicationProtocol: String?
    var certificate: Certificate?
    var milliseconds: Double
  }

  let address: SocketAddress
  /// Milliseconds from the first packet to the connection: one round trip.
  let milliseconds: Double
  private let descriptor: Int32

  init(to address: SocketAddress, seconds: Int) throws(ProbeProblem) {
    self.address = address
    let start = Process.nanoseconds
    descriptor = try Self.connect(address, seconds: seconds)
    milliseconds = Double(Process.nanoseconds - start) / 1e6
  }

  deinit { close(descriptor) }

  private static func connect(
    _ address: SocketAddress, seconds: Int
  ) throws(ProbeProblem) -> Int32 {
    var hints = unsafe addrinfo()
    unsafe hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    guard unsafe getaddrinfo(address.hostText, "\(address.port)", &hints, &list) == 0,
      let entry = unsafe list
    else { throw ProbeProblem(text: "is not an address") }
    defer { unsafe freeaddrinfo(list) }
    let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = unsafe socket(entry.pointee.ai_family, flags, 0)
    guard descriptor >= 0 else { throw ProbeProblem(text: lastError) }
    var code: Int32 = 0
    if unsafe Glibc.connect(descriptor, entry.pointee.ai_addr, entry.pointee.ai_addrlen) != 0 {
      code = errno
      if code == EINPROGRESS {
        code = wait(for: POLLOUT, on: descriptor, seconds: seconds) ? 0 : ETIMEDOUT
        var length = socklen_t(MemoryLayout<Int32>.size)
        if code == 0 { unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) }
      }
    }
    guard code == 0 else {
      close(descriptor)
      throw ProbeProblem(text: unsafe String(cString: strerror(code)).lowercased())
    }
    return descriptor
  }

  private static var lastError: String { unsafe String(cString: strerror(errno)).lowercased() }

  /// Returns false on timeout.
  private static func wait(for events: Int32, on descriptor: Int32, seconds: Int) -> Bool {
    var poll = pollfd(fd: descriptor, events: Int16(events), revents: 0)
    let deadline = Process.milliseconds + Int64(seconds) * 1000
    while true {
      let left = max(0, deadline - Process.milliseconds)
      let count = unsafe Glibc.poll(&poll, 1, Int32(left))
      if count > 0 { return true }
      guard count < 0, errno == EINTR else { return false }
    }
  }

  // MARK: TLS

  func handshake(
    _ configuration: TLSClientConfiguration, seconds: Int
  ) throws(ProbeProblem) -> Facts {
    let start = Process.nanoseconds
    do throws(TLSError) {
      let connection = try TLSConnection(context: try TLSContext(client: configuration))
      let buffers = TLSBuffers()
      connection.startHandshake(buffers: buffers)
      while true {
        flush(buffers)
        guard Self.wait(for: POLLIN, on: descriptor, seconds: seconds) else {
          return try Self.fail("the service does not answer the TLS handshake")
        }
        guard try receive(connection, buffers) else { continue }
        flush(buffers)
        return Facts(
          version: connection.version == .v1_3 ? "TLS 1.3" : "TLS 1.2",
          applicationProtocol: connection.negotiatedProtocol,
          certificate: connection.peerCertificateDER.flatMap { try? Certificate(der: $0.span) },
          milliseconds: Double(Process.nanoseconds - start) / 1e6)
      }
    } catch {
      throw ProbeProblem(text: error.description)
    }
  }

  private static func fail(_ reason: String) throws(TLSError) -> Facts {
    throw .handshakeFailed(reason: reason, alert: nil)
  }

  private func flush(_ buffers: TLSBuffers) {
    let output = unsafe buffers.output
    // A handshake is smaller than any socket's buffer.
    if unsafe !output.isEmpty {
      _ = unsafe send(descriptor, output.baseAddress, output.count, Int32(MSG_NOSIGNAL))
    }
    buffers.removeAllOutput()
  }

  /// Whether the handshake is complete.
  private func receive(
    _ connection: TLSConnection, _ buffers: TLSBuffers
  ) throws(TLSError) -> Bool {
    var piece = [UInt8](repeating: 0, count: 16_384)
    let count = unsafe recv(descriptor, &piece, piece.count, 0)
    if count <= 0 {
      if count < 0, errno == EAGAIN || errno == EINTR { return false }
      _ = connection.endOfInput()
      throw .handshakeFailed(
        reason: "the service closed the connection during the handshake", alert: nil)
    }
    var outcome: Result<Bool, TLSError> = .success(false)
    unsafe piece.withUnsafeBytes { bytes in
      unsafe connection.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
      reading: while true {
        switch connection.read(buffers: buffers) {
        case .handshakeCompleted: outcome = .success(true)
        case .failed(let error):
          if case .success(false) = outcome { outcome = .failure(error) }
          break reading
        case .needsInput, .closedByPeer: break reading
        case .plaintext: continue
        }
      }
    }
    return try outcome.get()
  }
}
