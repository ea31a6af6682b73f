import ApusModel

/// Tells when the memory of a crowd's handshakes is to be given back, as the crowd has gone by: the heap keeps what was
/// freed, 20 KB for each that was under way at once, and a worker that has its devices again needs none of it.
struct HeapAfterCrowd {
  private var steps = 0
  /// The most steps in one window since that was last so.
  private var most = 0
  private var windowEndSeconds: UInt64 = 0

  mutating func stepTaken() { steps += 1 }

  mutating func turnEnded(nowSeconds: UInt64) -> Bool {
    guard nowSeconds >= windowEndSeconds else { return false }
    most = max(most, steps)
    // While as many come as before, what they freed is what the next ones take.
    let isGone = most >= Limits.handshakesOfCrowd && steps <= most / 4
    if isGone { most = steps }
    steps = 0
    windowEndSeconds = nowSeconds + UInt64(Limits.crowdSeconds)
    return isGone
  }
}
