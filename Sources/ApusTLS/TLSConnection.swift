internal import COpenSSL

/// One side of a TLS connection, without a socket: ciphertext goes in by `provide`, comes out in `buffers.output`.
///
/// A turn: `provide` what the socket gave, `read` until `.needsInput`, any number of `write`s, then send and empty the
/// output. Every call may add to the output (handshake, alerts, answers to KeyUpdate). Between turns a connection owns
/// no I/O memory, except for the part of a record that has arrived so far.
///
/// Belongs to one worker at a time. It may move to another one between turns, whose buffers it then uses.
@safe package final class TLSConnection {
  @safe package enum ReadResult {
    /// The plaintext of a record, or of several that arrived together, in the buffers: at most 16 KiB, valid until the
    /// next call with these.
    case plaintext(UnsafeRawBufferPointer)
    /// Both sides are authenticated as far as the configuration asks. Reported once.
    case handshakeCompleted
    /// Everything that was provided is consumed.
    case needsInput
    /// The peer sent close_notify and will send nothing more; it still receives. Input after it is dropped, as
    /// RFC 8446, section 6.1 says.
    case closedByPeer
    /// The connection is over. An alert for the peer, if there is one, stands in the output.
    case failed(TLSError)
  }

  /// Who speaks.
  enum Side {
    /// A server's that nothing has come to yet, or that ended so. OpenSSL's object takes its memory before the
    /// handshake too, and of a crowd, or of somebody who only opens connections, each would have one.
    case unbegun(failure: TLSError?)
    case openSSL(OpenSSLSide)
    /// After `compact()`.
    case records(RecordSide)
    /// In a simulation.
    case plain(PlainSide)
  }

  package let context: TLSContext
  private(set) var side: Side

  /// The role is the context's.
  ///
  /// - Parameter session: of an earlier connection with an equal context, to be resumed if the server still can.
  /// - Throws: `.invalidConfiguration`, where OpenSSL has no memory. A server's first `read` reports that.
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

  /// Goes on with a connection that was packed with `dormant()`; `context` is the one that it had.
  package init(_ dormant: borrowing DormantTLS, context: TLSContext) {
    self.context = context
    side = .records(RecordSide(dormant, isServer: context.isServer))
  }

  /// Gives OpenSSL's object up, which takes 23 KB, for a record layer of our own, which takes 300 bytes. Call it when
  /// the handshake is completed, in the same turn or later; once it has succeeded, what the handshake settled is
  /// known as far as `TLSConnection+Facts` says so.
  ///
  /// - Returns: Whether the connection goes on that way. False where the context does not allow it, and for whatever
  ///   is not the usual: TLS 1.2, a message that has arrived in part, keys that were updated. OpenSSL goes on then.
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

  // MARK: Reading

  /// Lends `ciphertext` until `read` has answered `.needsInput`, `.closedByPeer` or `.failed`; call it until then.
  package func provide(_ ciphertext: UnsafeRawBufferPointer, buffers: TLSBuffers) {
    unsafe buffers.lend(ciphertext)
  }

  /// The next event. Drives the handshake too.
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

  /// Makes OpenSSL's object, of a side that is unbegun.
  func begin() throws(TLSError) -> OpenSSLSide {
    let openSSL = try OpenSSLSide(context: context)
    side = .openSSL(openSSL)
    return openSSL
  }

  /// For clients: puts the ClientHello into the output. An error is reported by the next `read`.
  package func startHandshake(buffers: TLSBuffers) {
    precondition(!context.isServer, "a server waits for the client's first message")
    buffers.beginTurn(of: self)
    switch side {
    case .openSSL(let side): side.startHandshake(buffers)
    case .plain(let side): side.startHandshake(buffers)
    case .unbegun, .records: break
    }
  }

  /// Tells that the transport has ended. RFC 8446, section 6.1: without close_notify before it, data may be missing.
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
  /// - Throws: `.notWritable`, or what ended the connection.
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

  /// Appends close_notify to the output. Nothing can be written after it; reading goes on.
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
