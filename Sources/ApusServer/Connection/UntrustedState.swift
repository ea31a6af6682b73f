import ApusWire

/// What a connection keeps while its peer is untrusted, and its steps wait for their turn. See `UntrustedWork`.
struct UntrustedState {
  /// Whether the next step waits for its turn. Nothing is read meanwhile.
  private(set) var isHeldBack = false
  /// Whether the proxy still has to name the client.
  private(set) var awaitsProxyHeader = false
  /// Bytes for a later turn: of the proxy's header and what follows it, then plaintext.
  private(set) var waiting: [UInt8] = []
  /// Millisecond of the loop's clock since which the peer owes the next step of the handshake; otherwise `.max`.
  private(set) var halfOpenMilliseconds = UInt64.max

  var isHalfOpen: Bool { halfOpenMilliseconds != .max }

  mutating func holdBack() { isHeldBack = true }

  mutating func turnCame() { isHeldBack = false }

  /// What has come of the proxy's header.
  var proxyHeader: ProxyHeader.Reading { ProxyHeader.read(waiting.span) }

  mutating func awaitProxyHeader() { awaitsProxyHeader = true }

  /// The header has ended; what came behind it keeps waiting.
  mutating func proxyHeaderEnded(atByte count: Int) {
    awaitsProxyHeader = false
    waiting.removeFirst(count)
  }

  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    unsafe waiting.append(contentsOf: bytes)
  }

  /// Returns all waiting bytes; what is not processed is put back.
  mutating func takeWaiting() -> [UInt8] {
    var bytes: [UInt8] = []
    swap(&bytes, &waiting)
    return bytes
  }

  /// Behind them nothing waits but what came with them.
  mutating func putBack(_ bytes: [UInt8]) { waiting += bytes }

  mutating func handshakeBegan(atMilliseconds now: UInt64) { halfOpenMilliseconds = now }

  mutating func handshakeEnded() { halfOpenMilliseconds = .max }
}
