import ApusModel

/// The settings that the service sent, and whether the peer knows them.
struct OwnSettings {
  private(set) var streamLimit: Int
  private(set) var isAcknowledged = false
  /// Our SETTINGS frames that the peer has not acknowledged.
  private var unacknowledgedCount = 1
  private let sentMilliseconds: UInt64

  /// The first frame was sent.
  init(streamLimit: Int, nowMilliseconds: UInt64) {
    self.streamLimit = streamLimit
    sentMilliseconds = nowMilliseconds
  }

  /// False if the peer acknowledges a frame that was not sent.
  mutating func acknowledged() -> Bool {
    guard unacknowledgedCount > 0 else { return false }
    unacknowledgedCount -= 1
    isAcknowledged = true
    return true
  }

  /// Whether the limit was raised, to be announced in a frame. A lower one is ignored.
  mutating func raiseStreamLimit(to limit: Int) -> Bool {
    guard limit > streamLimit else { return false }
    streamLimit = limit
    unacknowledgedCount += 1
    return true
  }

  /// A client may open streams without limit until it knows the limit: streams opened before that are never a
  /// connection error. A client that does not acknowledge is assumed to know it after a while.
  func allowedStreams(nowMilliseconds: UInt64) -> Int {
    if isAcknowledged || nowMilliseconds >= sentMilliseconds + SessionClock.requestMilliseconds {
      return streamLimit
    }
    return max(streamLimit, Limits.streamsBeforeSettings)
  }
}
