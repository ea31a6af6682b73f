import ApusLoop
import ApusModel

/// Opens links to the node that decides about a part of the devices, with a pause between two attempts.
struct LinkDialing {
  private var nextTryMilliseconds: UInt64 = 0

  /// A connection that nothing has used may have been dropped on the way.
  private static let keepAliveSeconds = 5

  /// The next attempt needs no pause: there may be another node.
  mutating func hurry() { nextTryMilliseconds = 0 }

  /// Begins to connect. Nil during a pause, and while no node decides.
  ///
  /// - Parameter silenceMilliseconds: See `LinkStream`.
  mutating func dial(
    _ edge: Edge, _ context: WorkerContext, silenceMilliseconds: UInt64,
    user: any LinkStreamUser
  ) throws -> LinkStream? {
    let now = context.loop.nowMilliseconds
    guard now >= nextTryMilliseconds, let target = edge.target else { return nil }
    nextTryMilliseconds = now + Limits.linkRetryMilliseconds
    return try LinkStream(
      target, context, silenceMilliseconds: silenceMilliseconds,
      keepAliveSeconds: Self.keepAliveSeconds, user: user)
  }
}
