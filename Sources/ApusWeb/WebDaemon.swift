import ApusThread
import CMicroHTTPD
import Glibc

/// A daemon of libmicrohttpd: a thread that reads requests and writes responses, and never blocks on a response.
///
/// A request is suspended while a thread of the pool makes its response, and then resumed. So a slow response delays
/// only its own connection.
@safe final class WebDaemon: @unchecked Sendable {
  private struct Record {
    var descriptor: Int32
    /// When the wait for the current request began, on `monotonicMilliseconds`; nil while it is answered.
    var sinceMilliseconds: Int64?
  }

  private struct State {
    var isStopping = false
    /// Number of suspended connections.
    var asleep = 0
    /// Number of requests between their head and the end of their response.
    var underWay = 0
    /// By the identity of the connection object.
    var connections: [ObjectIdentifier: Record] = [:]
    var streams: [ObjectIdentifier: WebStream] = [:]
  }

  private let handler: any WebHandler
  private let limits: WebLimits
  private let pool: WebPool
  private let state = Monitor(State())
  private var daemon: OpaquePointer?
  /// A duplicate of the listener: a daemon that fails to start closes its descriptor.
  private let listener: Int32

  /// Milliseconds that requests get to finish when the daemon stops.
  private static let patienceMilliseconds: Int64 = 5000

  /// Only TLS 1.2 and 1.3 with forward secrecy and authenticated encryption.
  private static let priorities =
    "NONE:+VERS-TLS1.3:+VERS-TLS1.2:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+ECDHE-ECDSA:"
    + "+ECDHE-RSA:+AEAD:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+SIGN-ALL:-SIGN-RSA-SHA1:"
    + "-SIGN-ECDSA-SHA1:-SIGN-DSA-SHA1:+COMP-NULL:+CTYPE-X509:%SERVER_PRECEDENCE"

  /// Why libmicrohttpd cannot be used; nil if it is ready.
  private static let fault = unsafe cmhd_load().map { reason in
    WebError.notLoaded(reason: unsafe String(cString: reason))
  }

  init(
    _ listener: WebListener, _ configuration: WebServerConfiguration, pool: WebPool,
    handler: any WebHandler
  ) throws(WebError) {
    if let fault = Self.fault { throw fault }
    self.handler = handler
    self.pool = pool
    limits = configuration.limits
    self.listener = fcntl(listener.descriptor, F_DUPFD_CLOEXEC, 0)
    let (certificate, key) = (
      configuration.identity.map { $0.certificatePEM + [0] },
      configuration.identity.map { $0.keyPEM + [0] }
    )
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe daemon = Self.withText(certificate) { certificate in
      unsafe Self.withText(key) { key in
        unsafe Self.priorities.withCString { priorities in
          var options = unsafe cmhd_options(
            listener: self.listener, connection_limit: limits.connections,
            address_limit: limits.connectionsPerAddress, idle_seconds: limits.idleSeconds,
            connection_bytes: limits.headBytes + limits.headBytes / 2, certificate: certificate,
            key: key, priorities: priorities)
          return unsafe cmhd_start(&options, handle, completed, connected, context)
        }
      }
    }
    guard unsafe daemon != nil else {
      throw .notStarted(address: listener.path ?? "port \(listener.port ?? 0)")
    }
  }

  private static func withText<Result>(
    _ text: [UInt8]?, _ body: (UnsafePointer<CChar>?) -> Result
  ) -> Result {
    guard let text else { return body(nil) }
    return unsafe text.withUnsafeBytes {
      unsafe body($0.baseAddress?.assumingMemoryBound(to: CChar.self))
    }
  }

  // MARK: The end

  /// Accepts no more connections, and returns when the existing ones have ended, each after its pending response. Call
  /// it once.
  func stop() {
    // The listener stays open and belongs to this object from here on.
    unsafe cmhd_quiesce(daemon)
    let streams = state.notify { state in
      state.isStopping = true
      return Array(state.streams.values)
    }
    for stream in streams { stream.end() }
    let patience = monotonicMilliseconds() + Self.patienceMilliseconds
    // libmicrohttpd must not be stopped while a connection is suspended.
    state.wait { state -> Monitor<State>.Look<Void> in
      if state.asleep > 0 { return .wait(untilMilliseconds: nil) }
      if state.underWay == 0 || monotonicMilliseconds() >= patience { return .found(()) }
      return .wait(untilMilliseconds: patience)
    }
    unsafe cmhd_stop(daemon)
    close(listener)
  }

  func mayFallAsleep() -> Bool {
    state.withLock { state in
      guard !state.isStopping else { return false }
      state.asleep += 1
      return true
    }
  }

  func wokeUp() { state.notify { $0.asleep -= 1 } }

  /// Closes connections whose request takes too long. Called every second.
  func cutOffSlow() {
    let latest = monotonicMilliseconds() - limits.requestSeconds * 1000
    state.withLock { state in
      for record in state.connections.values {
        // Under the lock, so that the descriptor still belongs to this connection.
        if let since = record.sinceMilliseconds, since < latest {
          shutdown(record.descriptor, Int32(SHUT_RDWR))
        }
      }
    }
  }

  /// Number of open connections.
  var connectionCount: Int { state.withLock { $0.connections.count } }

  // MARK: Connections, on the daemon's thread

  func started(_ handle: OpaquePointer) -> Connection {
    let connection = unsafe Connection(handle, self)
    state.withLock { state in
      state.connections[ObjectIdentifier(connection)] = Record(
        descriptor: connection.descriptor, sinceMilliseconds: monotonicMilliseconds())
    }
    return connection
  }

  func ended(_ connection: Connection) {
    state.withLock { $0.connections[ObjectIdentifier(connection)] = nil }
  }

  private func set(_ connection: Connection, awaitsRequest: Bool) {
    let now = awaitsRequest ? monotonicMilliseconds() : nil
    state.withLock { $0.connections[ObjectIdentifier(connection)]?.sinceMilliseconds = now }
  }

  // MARK: Requests, on the daemon's thread

  /// Handles a request's head. Nil if the connection must be closed.
  func begin(
    _ handle: OpaquePointer, _ connection: Connection, method: String, path: String
  ) -> WebExchange {
    state.withLock { $0.underWay += 1 }
    var request: WebRequest
    do throws(WebHead.Fault) {
      request = try unsafe WebHead.read(
        handle, method: method, path: path, peer: connection.peer, bodyLimit: limits.bodyBytes)
    } catch {
      let empty = WebRequest(method: method, segments: [], peer: connection.peer)
      let exchange = WebExchange(connection, empty)
      exchange.answer =
        switch error {
        case .bad(let problem): handler.malformed(problem)
        case .tooLarge: handler.tooLarge(limitBytes: limits.bodyBytes)
        }
      return exchange
    }
    let answer = handler.screen(&request)
    let exchange = WebExchange(connection, request)
    exchange.answer = answer
    return exchange
  }

  /// Handles a complete request, or one with an early response.
  func proceed(_ handle: OpaquePointer, _ exchange: WebExchange) -> MHD_Result {
    if exchange.isTooLarge, exchange.answer == nil {
      exchange.answer = handler.tooLarge(limitBytes: limits.bodyBytes)
    }
    set(exchange.connection, awaitsRequest: false)
    if exchange.answer == nil
      || (exchange.answer?.holdMilliseconds ?? 0) > 0 && !exchange.isAnswering
    {
      return answerLater(exchange) ? .YES : .NO
    }
    guard let answer = exchange.answer else { return .NO }
    return unsafe queue(answer, handle, exchange)
  }

  private func answerLater(_ exchange: WebExchange) -> Bool {
    guard !exchange.isAnswering else { return true }
    guard exchange.connection.suspend() else { return false }
    exchange.isAnswering = true
    let hold = exchange.answer?.holdMilliseconds ?? 0
    pool.submit(afterMilliseconds: hold) { [handler, pool] in
      if hold > 0 { return exchange.connection.resume() }
      let answer = handler.answer(exchange.request)
      exchange.answer = answer
      guard answer.holdMilliseconds > 0 else { return exchange.connection.resume() }
      pool.submit(afterMilliseconds: answer.holdMilliseconds) { exchange.connection.resume() }
    }
    return true
  }

  private func queue(
    _ answer: WebResponse, _ handle: OpaquePointer, _ exchange: WebExchange
  ) -> MHD_Result {
    guard let response = unsafe makeResponse(answer, exchange) else { return .NO }
    defer { unsafe cmhd_response_free(response) }
    for field in answer.allHeaders {
      unsafe cmhd_add_header(response, field.name, field.value)
    }
    return unsafe cmhd_queue(handle, UInt32(answer.status), response)
  }

  private func makeResponse(_ answer: WebResponse, _ exchange: WebExchange) -> OpaquePointer? {
    switch answer.body {
    case .bytes(let bytes):
      return unsafe bytes.withUnsafeBytes { bytes in
        unsafe cmhd_response(bytes.count, bytes.baseAddress)
      }
    case .stream(let stream):
      exchange.stream = stream
      state.withLock { $0.streams[ObjectIdentifier(exchange)] = stream }
      let context = unsafe Unmanaged.passRetained(exchange).toOpaque()
      return unsafe cmhd_response_streaming(
        16_384, readStream, context,
        { context in
          guard let context = unsafe context else { return }
          unsafe Unmanaged<WebExchange>.fromOpaque(context).release()
        })
    }
  }

  /// Called when the response was sent or the connection was lost.
  func finish(_ exchange: WebExchange) {
    defer { state.notify { $0.underWay -= 1 } }
    if let stream = exchange.stream {
      state.withLock { $0.streams[ObjectIdentifier(exchange)] = nil }
      stream.close()
    }
    set(exchange.connection, awaitsRequest: true)
  }

  func take(_ exchange: WebExchange, _ bytes: UnsafeRawBufferPointer) -> Bool {
    unsafe exchange.take(bytes, limit: limits.bodyBytes)
  }
}
