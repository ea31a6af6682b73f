package import ApusModel

/// Counts pushes to tokens that have been dead for longer than `Limits.deadTokenDays`: their providers ignore the
/// feedback list or the 410. Counted per topic since the start of the service.
package struct DeadTokenPushes: Sendable {
  package struct Key: Hashable, Sendable {
    package var topic: TopicKey
    package var environment: Environment

    package init(topic: TopicKey, environment: Environment) {
      self.topic = topic
      self.environment = environment
    }
  }

  package private(set) var numbers: [Key: UInt64] = [:]

  package init() {}

  mutating func count(_ claims: TokenClaims, deadSince since: Int64, nowMilliseconds now: Int64) {
    guard now - since > Limits.deadTokenDays * 24 * 3600 * 1000 else { return }
    numbers[Key(topic: claims.topic, environment: claims.environment), default: 0] += 1
  }

  package static func + (left: DeadTokenPushes, right: DeadTokenPushes) -> DeadTokenPushes {
    var sum = left
    sum.numbers.merge(right.numbers) { $0 + $1 }
    return sum
  }
}
