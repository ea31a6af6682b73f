internal import COpenSSL

/// One side of a TLS connection, without a socket: ciphertext goes in by `provide` and comes out in `buffers.output`.
///
/// A turn: `provide` the bytes from the socket, `read` until `.needsInput`, call `write` any number of times, then
/// send and empty the output. Every call may add to the output (handshake, alerts, answers to KeyUpdate). Between
/// turns a connection owns no I/O memory, except for a partially received record.
///
/// It belongs to one worker at a time. It may move to another between turns, and then uses that worker's buffers.
@safe package final class TLSConnection {
  @safe package enum ReadResult {
    /// The plaintext of a record, or of several that arrived together, in the buffers: at most 16 KiB, valid until the
    /// next call with these.
    case plaintext(UnsafeRawBufferPointer)
    /// Both sides are authenticated as the configuration requires. Reported once.
    case handshakeCompleted
    /// All the input was consumed.
    case needsInput
    /// The peer sent close_notify and will send nothing more; it can still receive. Input after it is dropped, as RFC
    /// 8446, section 6.1 says.
    case closedByPeer
    /// The connection ended. An alert for the peer, if any, is in the output.
    case failed(TLSError)
  }

  /// The implementation of a connection.
  enum Side {
    /// A server connection without any input yet, or that ended so. OpenSSL's object would use memory before the
    /// handshake; in a crowd, or for peers that only open connections, each would have one.
    case unbegun(failure: TLSError?)
    case openSSL(OpenSSLSide)
    /// After `compact()`.
    case records(RecordSide)
    /// For simulations.
    case plain(PlainSide)
  }

  package let context: TLSContext
  private(set) var side: Side
  /// Nil unless the peer speaks for another.
  private(set) var represented: RepresentedPeer?

  /// The context decides the role.
  ///
  /// - Parameter session: From an earlier connection with an equal context; resumed if the server still can.
  /// - Throws: `.invalidConfiguration` if OpenSSL is out of memory. For servers, the first `read` reports that.
  package init(context: TLSContext, session: TLSSession? = nil) throws(TLSError) {
    self.context = context
    if let plain = context.plain {
      side = .plain(PlainSide(plain))
    } else if context.isServer {
      side = .unbegun(failure: nil)
    } else {
      side = .openSSL(try OpenSSLSide(context: context, session: session))
    }
  }

  /// Continues a connection that was packed with `dormant()`; `context` must be the same one.
  package init(_ dormant: borrowing DormantTLS, context: TLSContext) {
    self.context = context
    side = .records(RecordSide(dormant, isServer: context.isServer))
  }

  /// Replaces OpenSSL's object, 23 KB, with our own record layer, 300 bytes. Call it once the handshake is completed,
  /// in the same turn or later; after it succeeds, the results of the handshake are available as `TLSConnection+Facts`
  /// states.
  ///
  /// - Returns: Whether the connection was converted. False if the context does not allow it, and in unusual cases:
  ///   TLS 1.2, a partially received message, updated keys. OpenSSL then continues.
  @discardableResult package func compact() -> Bool {
    guard case .openSSL(let openSSL) = side, let records = openSSL.makeRecordSide() else {
      return false
    }
    side = .records(records)
    return true
  }

  /// Whether `compact()` has succeeded.
  package var isCompact: Bool {
    if case .records = side { true } else { false }
  }

  package var isEstablished: Bool {
    switch side {
    case .unbegun: false
    case .openSSL(let side): side.isEstablished
    case .records(let side): side.isEstablished
    case .plain(let side): side.phase == .established || side.phase == .closedByPeer
    }
  }

  /// From now on, what the handshake found out about the peer is what the peer says about another.
  package func represent(_ peer: RepresentedPeer) { represented = peer }

  // MARK: Reading

  /// Lends `ciphertext` until `read` has returned `.needsInput`, `.closedByPeer` or `.failed`; call it until then.
  package func provide(_ ciphertext: UnsafeRawBufferPointer, buffers: TLSBuffers) {
    unsafe buffers.lend(ciphertext)
  }

  /// The next event. Also drives the handshake.
  package func read(buffers: TLSBuffers) -> ReadResult {
    buffers.beginTurn(of: self)
    return switch side {
    case .records(let side): side.read(buffers)
    case .openSSL(let side): side.read(buffers)
    case .plain(let side): side.read(buffers)
    case .unbegun(let failure): readFirst(failure, buffers)
    }
  }

  private func readFirst(_ failure: TLSError?, _ buffers: TLSBuffers) -> ReadResult {
    guard buffers.hasInput else { return failure.map { .failed($0) } ?? .needsInput }
    do throws(TLSError) {
      if let failure { throw failure }
      return try begin().read(buffers)
    } catch {
      side = .unbegun(failure: error)
      buffers.dropInput()
      return .failed(error)
    }
  }

  /// Creates OpenSSL's object for a side that has not begun.
  func begin() throws(TLSError) -> OpenSSLSide {
    let openSSL = try OpenSSLSide(context: context)
    side = .openSSL(openSSL)
    return openSSL
  }

  /// For clients: appends the ClientHello to the output. The next `read` reports an error.
  package func startHandshake(buffers: TLSBuffers) {
    precondition(!context.isServer, "a server waits for the client's first message")
    buffers.beginTurn(of: self)
    switch side {
    case .openSSL(let side): side.startHandshake(buffers)
    case .plain(let side): side.startHandshake(buffers)
    case .unbegun, .records: break
    }
  }

  /// Reports that the transport has ended. RFC 8446, section 6.1: without a preceding close_notify, data may be
  /// missing.
  package func endOfInput() -> ReadResult {
    switch side {
    case .unbegun(let failure):
      side = .unbegun(failure: failure ?? .truncated)
      return .failed(failure ?? .truncated)
    case .openSSL(let side): return side.endOfInput()
    case .records(let side): return side.endOfInput()
    case .plain(let side): return side.phase == .closedByPeer ? .closedByPeer : .failed(.truncated)
    }
  }

  // MARK: Writing

  /// Appends `plaintext` to the output, as records of up to 16 KiB.
  ///
  /// - Throws: `.notWritable`, or the error that ended the connection.
  package func write(
    _ plaintext: UnsafeRawBufferPointer, buffers: TLSBuffers
  ) throws(TLSError) {
    buffers.beginTurn(of: self)
    switch side {
    case .records(let side): try unsafe side.write(plaintext, buffers)
    case .openSSL(let side): try unsafe side.write(plaintext, buffers)
    case .unbegun(let failure): throw failure ?? .notWritable
    case .plain(let side):
      guard side.isWritable else { throw .notWritable }
      side.write(unsafe Span(_unsafeBytes: plaintext), buffers)
    }
  }

  /// Appends close_notify to the output. Nothing can be written after it; reading remains possible.
  package func close(buffers: TLSBuffers) {
    buffers.beginTurn(of: self)
    switch side {
    case .records(let side): side.close(buffers)
    case .openSSL(let side): side.close(buffers)
    case .plain(let side): side.close(buffers)
    case .unbegun: break
    }
  }
}
