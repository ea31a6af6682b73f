import ApusModel

/// Notifications that came again under another message id while they waited for their acknowledgement, which then goes
/// for all of them: for a device that leaves one unanswered, the service ends the connection. Of one connection.
struct OpenCopies: Sendable {
  private var copies: [(messageID: UInt32, first: UInt32)] = []

  /// - Parameter first: The message id under which it was reported.
  mutating func note(_ messageID: UInt32, of first: UInt32) {
    // The service leaves no more than these without an acknowledgement.
    guard messageID != first, copies.count < Limits.courierWindowFrames else { return }
    copies.append((messageID, first))
  }

  /// The message id of a copy of `first`, which is forgotten; nil if there is none.
  mutating func take(_ first: UInt32) -> UInt32? {
    guard let place = copies.firstIndex(where: { $0.first == first }) else { return nil }
    return copies.remove(at: place).messageID
  }
}
