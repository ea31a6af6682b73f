internal import COpenSSL

/// What a client keeps of a connection to resume it: owns an `SSL_SESSION`, which OpenSSL counts and does not change.
@safe package final class TLSSession: @unchecked Sendable {
  let handle: OpaquePointer

  /// Takes the reference over.
  init(owning handle: OpaquePointer) { unsafe self.handle = handle }
  deinit { unsafe SSL_SESSION_free(handle) }

  /// Whether the server sent a ticket for it.
  package var hasTicket: Bool { unsafe SSL_SESSION_has_ticket(handle) == 1 }
  /// Seconds for which the server wants the ticket to be used.
  package var ticketLifetimeSeconds: Int {
    Int(unsafe SSL_SESSION_get_ticket_lifetime_hint(handle))
  }
}
