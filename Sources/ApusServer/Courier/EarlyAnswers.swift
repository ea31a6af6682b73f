import ApusModel
import ApusWire

/// What a device says of notifications that another node has sent, while this one has not read all of them from the
/// store yet. Of a resumed connection.
struct EarlyAnswers {
  private var answers: [CourierAcknowledgement] = []
  /// Whether there are new ones since they were held against what waits.
  private(set) var areNew = false

  mutating func note(_ acknowledgement: CourierAcknowledgement) {
    // No node leaves more than these unanswered.
    guard answers.count < Limits.courierWindowFrames + Limits.broadcastWindowFrames else { return }
    answers.append(acknowledgement)
    areNew = true
  }

  /// The answer for what would be sent now; nil if there is none.
  mutating func take(_ messageID: UInt32) -> CourierAcknowledgement.Status? {
    guard let place = answers.firstIndex(where: { $0.messageID == messageID }) else { return nil }
    return answers.remove(at: place).status
  }

  /// Everything that the store has waits to be sent: drops the answers for which `end` finds something.
  mutating func apply(_ end: (CourierAcknowledgement) -> Bool) {
    areNew = false
    answers.removeAll { end($0) }
  }
}
