/// A push on its way from `send` to its outcome.
final class PendingSend {
  /// Rises with each push of a client: tells them apart, and their order.
  let number: UInt64
  let push: EncodedPush
  /// By the loop's clock.
  let deadlineMilliseconds: UInt64
  /// Requests that were made of it.
  var attempts = 0
  private var completion: ((SendOutcome) -> Void)?

  init(
    number: UInt64, push: EncodedPush, deadlineMilliseconds: UInt64,
    completion: @escaping (SendOutcome) -> Void
  ) {
    self.number = number
    self.push = push
    self.deadlineMilliseconds = deadlineMilliseconds
    self.completion = completion
  }

  /// Whether the caller has its outcome.
  var isFinished: Bool { completion == nil }

  /// Gives the caller its outcome; the first one counts.
  func finish(_ outcome: SendOutcome) {
    let completion = completion.take()
    completion?(outcome)
  }

  func finish(_ cause: UnknownCause, retryMayDuplicate: Bool) {
    finish(.unknown(cause, retryMayDuplicate: retryMayDuplicate))
  }
}
