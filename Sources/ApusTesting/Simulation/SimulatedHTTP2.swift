import ApusHTTP2
import ApusModel

/// The provider token of a connection.
struct SimulatedProviderToken {
  /// The index of the key that signs it.
  let key: Int
  private var issuedAtSeconds: Int64 = 0

  private static let refreshSeconds: Int64 = 2400

  init(key: Int = 0) { self.key = key }

  /// Adds the token to a request, a new one if the last is old.
  mutating func add(to fields: inout RequestFields, _ world: Simulation) {
    let now = world.worldSeconds
    if now - issuedAtSeconds > Self.refreshSeconds { issuedAtSeconds = now }
    guard
      let value = try? world.credentials.authorization(
        world.credentials.keys[key], issuedAt: issuedAtSeconds)
    else { return world.oracle.violated(.protocols, "no provider token") }
    _ = fields.add(.authorization, value: value.span)
  }
}

extension SimulatedLine {
  /// Sends what a session has to say.
  func send(from session: HTTP2ClientSession?) {
    guard let session else { return }
    var output: [UInt8] = []
    while session.wantsWrite {
      let before = output.count
      session.pendingOutput(into: &output, limit: output.count + 16_384)
      if output.count == before { break }
    }
    send(output)
  }
}
