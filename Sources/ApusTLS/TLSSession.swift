internal import COpenSSL

/// A client's data for resuming a connection. Owns an `SSL_SESSION`; immutable.
@safe package final class TLSSession: @unchecked Sendable {
  private let handle: OpaquePointer

  /// Takes ownership of the reference.
  init(owning handle: OpaquePointer) { unsafe self.handle = handle }
  deinit { unsafe SSL_SESSION_free(handle) }

  /// Whether the server sent a ticket for it.
  package var hasTicket: Bool { unsafe SSL_SESSION_has_ticket(handle) == 1 }
  /// The ticket's lifetime in seconds, as the server suggests.
  package var ticketLifetimeSeconds: Int {
    Int(unsafe SSL_SESSION_get_ticket_lifetime_hint(handle))
  }

  /// Makes `ssl` try to resume it.
  func offer(on ssl: OpaquePointer) throws(TLSError) {
    // A copy: OpenSSL marks a session passed to it as used once a new ticket arrives.
    guard let copy = unsafe SSL_SESSION_dup(handle) else {
      throw .invalidConfiguration("session: \(OpenSSLErrors.drain())")
    }
    defer { unsafe SSL_SESSION_free(copy) }
    guard unsafe SSL_set_session(ssl, copy) == 1 else {
      throw .invalidConfiguration("session: \(OpenSSLErrors.drain())")
    }
  }

  func hasSameTicket(as other: TLSSession) -> Bool { ticket == other.ticket }

  /// The ticket as the server sent it; empty if none.
  var ticket: [UInt8] {
    var bytes: UnsafePointer<UInt8>?
    var count = 0
    unsafe SSL_SESSION_get0_ticket(handle, &bytes, &count)
    return unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
  }
}
