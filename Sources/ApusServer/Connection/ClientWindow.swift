import ApusModel

/// How much of one client is under way on a link, at one of its ends. See ``ClientFrame/Kind/credit``.
struct ClientWindow {
  /// Bytes that were sent, and that the other end has not passed on.
  private var waitingBytes = 0
  /// Bytes that came and were passed on, and that the other end does not know of.
  private var passedBytes = 0

  var hasRoom: Bool { waitingBytes < Limits.linkClientBytes }

  mutating func sent(_ count: Int) { waitingBytes += count }

  /// The other end has passed on so many bytes.
  mutating func granted(_ count: UInt32) { waitingBytes = max(0, waitingBytes - Int(count)) }

  /// Returns what the other end is to be told; nil while that is not worth a frame.
  mutating func passed(_ count: Int) -> UInt32? {
    passedBytes += count
    guard passedBytes >= Limits.linkClientBytes / 4 else { return nil }
    defer { passedBytes = 0 }
    return UInt32(passedBytes)
  }
}
