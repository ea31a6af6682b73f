import ApusModel
import ApusServer

/// Checks providers against the rules that concern several pushes. It has no clock; times are those of the pushes.
struct ConnectionWatch: Sendable {
  private struct Peer {
    /// End times of connections that carried a single push, latest last.
    var single: [Int64] = []
  }

  private struct Connection {
    var pushes = 0
    var last: UInt64 = 0
  }

  private struct Key {
    var issuedAtSeconds: Int64
  }

  private struct Refusal {
    var milliseconds: Int64
    var status: Int
    var payload: [UInt8]
  }

  private var connections: [UInt64: Connection] = [:]
  private var peers: [String: Peer] = [:]
  private var keys: [String: Key] = [:]
  private var refusals: [String: Refusal] = [:]
  private var deadTokens: [String: Int64] = [:]

  /// Maximum entries of each table; a full table is cleared.
  private static let capacity = 10_000
  /// Allowed number of connections with a single push, and the time window.
  static let singlesAllowed = 2
  static let singleMilliseconds: Int64 = 60_000
  /// Retries faster than this violate the advice to wait. Source: Handling notification responses from APNs.
  static let patienceMilliseconds: Int64 = 1000
  /// Characters after which a phone truncates a text.
  static let textCharacters = 178

  /// Checks a push after its response.
  mutating func check(_ exchange: ProviderExchange, number: UInt64) -> [Violation] {
    var found: [Violation] = []
    if exchange.request.interface == .http2 {
      noteConnection(exchange, number)
      if let violation = noteToken(exchange) { found.append(violation) }
    }
    if let violation = noteRefusal(exchange) { found.append(violation) }
    if let violation = noteDeath(exchange) { found.append(violation) }
    return found
  }

  private mutating func noteConnection(_ exchange: ProviderExchange, _ number: UInt64) {
    if connections.count >= Self.capacity { connections = [:] }
    let id = exchange.request.connection.number
    connections[id, default: Connection()].pushes += 1
    connections[id]?.last = number
  }

  /// Checks a connection that has ended.
  ///
  /// - Returns: The push that it carried, and the violation.
  mutating func closed(
    _ connection: InterceptedConnection, nowMilliseconds: Int64
  ) -> (number: UInt64, violation: Violation)? {
    guard let ended = connections.removeValue(forKey: connection.number), ended.pushes == 1 else {
      return nil
    }
    if peers.count >= Self.capacity { peers = [:] }
    let host = connection.peer.lastIndex(of: ":").map { String(connection.peer[..<$0]) }
    let name = "\(host ?? connection.peer) \(connection.credential ?? "")"
    var peer = peers[name] ?? Peer()
    peer.single.removeAll { nowMilliseconds - $0 > Self.singleMilliseconds }
    peer.single.append(nowMilliseconds)
    let count = peer.single.count
    if count > Self.singlesAllowed { peer.single.removeFirst() }
    peers[name] = peer
    guard count > Self.singlesAllowed else { return nil }
    return (
      ended.last,
      Violation(
        .connectionPerPush,
        "its connection carried no other push, and neither did others in the last minute. Keep "
          + "connections open: handshakes cost more than pushes, and APNs treats rapid reconnects as an "
          + "attack.")
    )
  }

  private mutating func noteToken(_ exchange: ProviderExchange) -> Violation? {
    let request = exchange.request
    guard let credential = request.credential, let issued = request.tokenIssuedAtSeconds else {
      return nil
    }
    if keys.count >= Self.capacity { keys = [:] }
    guard let key = keys[credential] else {
      keys[credential] = Key(issuedAtSeconds: issued)
      return nil
    }
    // Several processes may use different tokens, so only a newer one is a refresh.
    guard issued > key.issuedAtSeconds else { return nil }
    keys[credential] = Key(issuedAtSeconds: issued)
    let distance = issued - key.issuedAtSeconds
    guard distance < Limits.providerTokenRefreshSeconds else { return nil }
    return Violation(
      .tokenRefreshedEarly,
      "is only \(distance) s newer than the previous token. Keep a provider token for 20 to 60 minutes: "
        + "on one connection APNs answers an earlier refresh with "
        + "\(Reason.tooManyProviderTokenUpdates.text).", at: "\(HeaderName.authorization.text)")
  }

  private mutating func noteRefusal(_ exchange: ProviderExchange) -> Violation? {
    let request = exchange.request
    let recipient = request.channel ?? request.token
    let before = refusals.removeValue(forKey: recipient)
    if request.interface == .http2, [429, 500, 503].contains(exchange.status) {
      if refusals.count >= Self.capacity { refusals = [:] }
      refusals[recipient] = Refusal(
        milliseconds: exchange.answeredMilliseconds, status: exchange.status,
        payload: request.payload)
    }
    guard let before, before.payload == request.payload else { return nil }
    let waited = request.receivedMilliseconds - before.milliseconds
    guard waited >= 0, waited < Self.patienceMilliseconds else { return nil }
    return Violation(
      .retriedAtOnce,
      "was retried \(waited) ms after a rejection with status \(before.status). Wait longer before each "
        + "retry, and as long as retry-after says if present.")
  }

  private mutating func noteDeath(_ exchange: ProviderExchange) -> Violation? {
    guard exchange.request.channel == nil else { return nil }
    let token = exchange.request.token
    let isKnown = deadTokens[token] != nil
    if exchange.saysDead {
      if deadTokens.count >= Self.capacity { deadTokens = [:] }
      deadTokens[token] = exchange.answeredMilliseconds
    } else {
      // The token was registered again.
      deadTokens[token] = nil
    }
    guard isKnown, exchange.saysDead else { return nil }
    return Violation(
      .deadTokenUsed,
      "goes to a token that got a 410 before. Delete such a token unless the app "
        + "registers it again after the timestamp of that response.")
  }
}
