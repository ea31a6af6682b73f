/// What a connection keeps while its peer is untrusted, and its steps wait for their turn. See `UntrustedWork`.
struct UntrustedState {
  /// Whether the next step waits for its turn. Nothing is read meanwhile.
  private(set) var isHeldBack = false
  /// Plaintext for a later turn.
  private(set) var waiting: [UInt8] = []
  /// Millisecond of the loop's clock since which the peer owes the next step of the handshake; otherwise `.max`.
  private(set) var halfOpenMilliseconds = UInt64.max

  var isHalfOpen: Bool { halfOpenMilliseconds != .max }

  mutating func holdBack() { isHeldBack = true }

  mutating func turnCame() { isHeldBack = false }

  mutating func append(_ plaintext: UnsafeRawBufferPointer) {
    unsafe waiting.append(contentsOf: plaintext)
  }

  /// Returns all plaintext; what is not processed is put back.
  mutating func takeWaiting() -> [UInt8] {
    var bytes: [UInt8] = []
    swap(&bytes, &waiting)
    return bytes
  }

  mutating func putBack(_ plaintext: [UInt8]) { waiting = plaintext }

  mutating func handshakeBegan(atMilliseconds now: UInt64) { halfOpenMilliseconds = now }

  mutating func handshakeEnded() { halfOpenMilliseconds = .max }
}
