import ApusModel

/// Decides when to return the memory of a crowd's handshakes to the system. The heap keeps what was freed, 20 KB for
/// each handshake in progress at the same time, and a worker whose devices have reconnected needs none of it.
struct HeapAfterCrowd {
  private var steps = 0
  /// The most steps in one window since that was last so.
  private var most = 0
  private var windowEndSeconds: UInt64 = 0

  mutating func stepTaken() { steps += 1 }

  mutating func turnEnded(nowSeconds: UInt64) -> Bool {
    guard nowSeconds >= windowEndSeconds else { return false }
    most = max(most, steps)
    // As long as the crowd continues, the next handshakes reuse what the last ones freed.
    let isGone = most >= Limits.handshakesOfCrowd && steps <= most / 4
    if isGone { most = steps }
    steps = 0
    windowEndSeconds = nowSeconds + UInt64(Limits.crowdSeconds)
    return isGone
  }
}
