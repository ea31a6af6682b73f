import ApusCore
import ApusLog
import ApusLoop

/// Says once, in the log, that a worker has no link.
struct LinkTrouble {
  /// Since when there has been none; nil while there is one.
  private var sinceMilliseconds: UInt64?
  private var isReported = false

  /// A node that has just joined is turned away until the one that decides has heard of it.
  private static let unreportedMilliseconds: UInt64 = 1000

  mutating func ended() { (sinceMilliseconds, isReported) = (nil, false) }

  mutating func note(_ fault: String, _ context: WorkerContext, _ edge: Edge) {
    let now = context.loop.nowMilliseconds
    let since = sinceMilliseconds ?? now
    sinceMilliseconds = since
    guard !isReported, now >= since + Self.unreportedMilliseconds else { return }
    isReported = true
    context.log(
      .warning, "no link to the node that decides",
      .text("node", edge.target?.node.text ?? ""), .text("reason", fault))
  }
}
