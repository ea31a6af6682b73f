internal import ApusModel
internal import COpenSSL
internal import CShims

/// A connection driven by OpenSSL: every handshake, and what follows unless `RecordSide` takes over.
@safe final class OpenSSLSide {
  enum Phase {
    case handshaking
    case established
    case closedByPeer
    case failed
  }

  let context: TLSContext
  let ssl: OpaquePointer
  private let bio: OpaquePointer
  private(set) var phase = Phase.handshaking
  private var isClosed = false
  private var failure: TLSError?
  /// The session that this connection tries to resume.
  private let offeredSession: TLSSession?
  /// Plaintext written while OpenSSL was between two records of one handshake message; see `write`.
  private var delayed: [UInt8] = []
  /// The secrets from the handshake; nil if they are not needed.
  private(set) var traffic: UnsafeMutablePointer<apus_traffic>?

  /// Whether the client offered any application protocols. Servers only; known once the ClientHello was read.
  private(set) var offeredALPN = false
  /// The negotiated protocol's index in the configured list.
  private(set) var protocolIndex: Int?
  /// The session to resume next time; nil until the server has sent one. Under TLS 1.3 that comes after the handshake,
  /// with the first read. Clients only.
  private(set) var session: TLSSession?
  /// NewSessionTicket messages received. Only for clients that keep sessions.
  private(set) var receivedTicketCount = 0

  /// The context decides the role.
  ///
  /// - Parameter session: From an earlier connection with an equal context; resumed if the server still can.
  /// - Throws: `.invalidConfiguration` if OpenSSL is out of memory.
  init(context: TLSContext, session: TLSSession? = nil) throws(TLSError) {
    ERR_clear_error()
    guard let bio = unsafe apus_tls_bio_new() else {
      throw .invalidConfiguration("TLS connection: \(OpenSSLErrors.drain())")
    }
    guard let ssl = unsafe SSL_new(context.handle.pointer) else {
      unsafe BIO_free(bio)
      throw .invalidConfiguration("TLS connection: \(OpenSSLErrors.drain())")
    }
    self.context = context
    unsafe self.ssl = ssl
    unsafe self.bio = bio
    offeredSession = session
    unsafe SSL_set_bio(ssl, bio, bio)
    if context.allowsCompaction { watchTraffic() }
    if context.isServer {
      unsafe SSL_set_accept_state(ssl)
      return
    }
    unsafe SSL_set_connect_state(ssl)
    unsafe SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
    if let name = context.serverNameIndication, unsafe !apus_tls_set_server_name(ssl, name) {
      throw .invalidConfiguration("server name \"\(name)\": \(OpenSSLErrors.drain())")
    }
    try unsafe session?.offer(on: ssl)
  }

  // The SSL owns the BIO and frees it.
  deinit {
    forgetTraffic()
    unsafe SSL_free(ssl)
  }

  var isEstablished: Bool {
    switch phase {
    case .established, .closedByPeer: true
    case .handshaking, .failed: false
    }
  }

  var hasNothingDelayed: Bool { delayed.isEmpty && !isClosed }

  private func watchTraffic() {
    let traffic = UnsafeMutablePointer<apus_traffic>.allocate(capacity: 1)
    unsafe traffic.initialize(to: apus_traffic())
    unsafe traffic.pointee.is_server = context.isServer
    unsafe self.traffic = traffic
    // Without memory for it, OpenSSL keeps the connection.
    if unsafe !apus_traffic_attach(ssl, traffic) { forgetTraffic() }
  }

  func forgetTraffic() {
    guard let traffic = unsafe traffic else { return }
    unsafe apus_traffic_attach(ssl, nil)
    unsafe apus_wipe(traffic, MemoryLayout<apus_traffic>.size)
    unsafe traffic.deallocate()
    unsafe self.traffic = nil
  }

  func sessionArrived(_ session: TLSSession) {
    self.session = session
    if session.hasTicket { receivedTicketCount += 1 }
  }

  /// Under TLS 1.2 a resumed session stays valid, and OpenSSL does not report that the server renewed its ticket.
  private func keepResumedSession() {
    guard let offeredSession, isResumed, version != .v1_3, context.keepsSessions,
      let handle = unsafe SSL_get1_session(ssl)
    else { return }
    let current = unsafe TLSSession(owning: handle)
    if current.hasTicket, !current.hasSameTicket(as: offeredSession) {
      sessionArrived(current)
    } else {
      session = offeredSession
    }
  }
}

// MARK: - Reading

extension OpenSSLSide {
  /// The next event. Also drives the handshake.
  func read(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    switch phase {
    case .handshaking: return proceed(buffers)
    case .established: return readRecord(buffers)
    case .closedByPeer:
      buffers.dropInput()
      return .closedByPeer
    case .failed:
      buffers.dropInput()
      return .failed(failure ?? .truncated)
    }
  }

  /// For clients: appends the ClientHello to the output. The next `read` reports an error.
  func startHandshake(_ buffers: TLSBuffers) {
    if phase == .handshaking { _ = proceed(buffers) }
  }

  /// Reports that the transport has ended. RFC 8446, section 6.1: without a preceding close_notify, data may be
  /// missing.
  func endOfInput() -> TLSConnection.ReadResult {
    switch phase {
    case .closedByPeer: return .closedByPeer
    case .failed: return .failed(failure ?? .truncated)
    case .handshaking, .established:
      phase = .failed
      failure = .truncated
      return .failed(.truncated)
    }
  }

  private func proceed(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    attach(buffers)
    let outcome = unsafe SSL_do_handshake(ssl)
    if unsafe buffers.pump.pointee.offered_alpn { offeredALPN = true }
    guard outcome == 1 else { return stopped(outcome, buffers) }
    phase = .established
    protocolIndex = selectedProtocolIndex()
    keepResumedSession()
    return .handshakeCompleted
  }

  private func readRecord(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    // Reading without input makes OpenSSL allocate and free a buffer of 16 KiB.
    guard unsafe buffers.hasInput || SSL_has_pending(ssl) == 1 else { return .needsInput }
    attach(buffers)
    var count = 0
    let area = unsafe buffers.plaintext
    let outcome = unsafe SSL_read_ex(ssl, area.baseAddress, area.count, &count)
    guard outcome == 1 else {
      let result = stopped(outcome, buffers)
      if !delayed.isEmpty, phase != .failed { flushDelayed(buffers) }
      return phase == .failed ? .failed(failure ?? .truncated) : result
    }
    return unsafe .plaintext(UnsafeRawBufferPointer(start: area.baseAddress, count: count))
  }

  /// Gives OpenSSL access to `buffers` for the following call.
  private func attach(_ buffers: TLSBuffers) {
    let pump = unsafe buffers.pump
    unsafe pump.pointee.alert_sent = -1
    unsafe pump.pointee.offered_alpn = false
    unsafe BIO_set_data(bio, pump)
    // Clearing an empty list costs as much as clearing a full one.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// The meaning of a call that did not succeed.
  private func stopped(_ outcome: Int32, _ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    switch unsafe SSL_get_error(ssl, outcome) {
    case SSL_ERROR_WANT_READ: return .needsInput
    case SSL_ERROR_ZERO_RETURN:
      phase = .closedByPeer
      buffers.dropInput()
      return .closedByPeer
    default: return .failed(fail(buffers))
    }
  }

  @discardableResult
  private func fail(_ buffers: TLSBuffers) -> TLSError {
    fail(classify(alertSent: unsafe buffers.pump.pointee.alert_sent), buffers)
  }

  private func fail(_ error: TLSError, _ buffers: TLSBuffers) -> TLSError {
    phase = .failed
    failure = error
    delayed = []
    buffers.dropInput()
    return error
  }

  /// RFC 8446, section 6.2: from bad_certificate to decrypt_error.
  private static let certificateAlerts: ClosedRange<Int32> = 42...51

  /// Determines the error from the error queue.
  private func classify(alertSent: Int32) -> TLSError {
    let code = ERR_peek_error()
    let reason = Int32(truncatingIfNeeded: ERR_GET_REASON(code))
    let text = OpenSSLErrors.drain()
    let fromTLS = ERR_GET_LIB(code) == ERR_LIB_SSL
    if alertSent == SSL_AD_NO_APPLICATION_PROTOCOL { return .noApplicationProtocol }
    if fromTLS, reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256 {
      let alert = reason - SSL_AD_REASON_OFFSET
      return alert == SSL_AD_NO_APPLICATION_PROTOCOL
        ? .noApplicationProtocol : .alertReceived(UInt8(alert))
    }
    let verdict = unsafe SSL_get_verify_result(ssl)
    // Earlier parsing failures, such as an unreadable extension, precede the verdict in OpenSSL's queue.
    let isVerdict =
      fromTLS && reason == SSL_R_CERTIFICATE_VERIFY_FAILED
      || phase == .handshaking && verdict != X509_V_OK && Self.certificateAlerts ~= alertSent
    if isVerdict {
      return unsafe .certificateRejected(String(cString: X509_verify_cert_error_string(verdict)))
    }
    guard phase == .handshaking else { return .protocolError(text) }
    return .handshakeFailed(reason: text, alert: UInt8(exactly: alertSent))
  }
}

// MARK: - Writing

extension OpenSSLSide {
  /// Appends `plaintext` to the output, as records of up to 16 KiB.
  ///
  /// - Throws: `.notWritable`, or the error that ended the connection.
  func write(
    _ plaintext: UnsafeRawBufferPointer, _ buffers: TLSBuffers
  ) throws(TLSError) {
    guard isEstablished, !isClosed else { throw failure ?? .notWritable }
    if plaintext.count == 0 { return }
    if !delayed.isEmpty { return try unsafe delay(plaintext, buffers) }
    attach(buffers)
    var count = 0
    let outcome = unsafe SSL_write_ex(ssl, plaintext.baseAddress, plaintext.count, &count)
    if outcome == 1 { return }
    guard unsafe SSL_get_error(ssl, outcome) == SSL_ERROR_WANT_READ else { throw fail(buffers) }
    try unsafe delay(plaintext, buffers)
  }

  /// Appends close_notify to the output. Nothing can be written after it; reading remains possible.
  func close(_ buffers: TLSBuffers) {
    guard isEstablished, !isClosed else { return }
    isClosed = true
    attach(buffers)
    _ = unsafe SSL_shutdown(ssl)
    ERR_clear_error()
  }

  // OpenSSL sends nothing while a post-handshake message (a session ticket, a KeyUpdate) is incomplete: the peer may
  // split one over several records. Plaintext written meanwhile waits here, up to a limit, because such a peer may
  // never complete it.
  private func delay(
    _ plaintext: UnsafeRawBufferPointer, _ buffers: TLSBuffers
  ) throws(TLSError) {
    guard delayed.count + plaintext.count <= Limits.outputHighWaterBytes else {
      throw fail(.protocolError("the peer left a handshake message unfinished"), buffers)
    }
    unsafe delayed.append(contentsOf: plaintext)
  }

  private func flushDelayed(_ buffers: TLSBuffers) {
    attach(buffers)
    let (outcome, error) = unsafe delayed.withUnsafeBytes { bytes in
      var count = 0
      let outcome = unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
      return (outcome, unsafe SSL_get_error(ssl, outcome))
    }
    if outcome == 1 { delayed = [] } else if error != SSL_ERROR_WANT_READ { fail(buffers) }
  }
}
