/// A push on its way from the caller to its outcome.
///
/// One object for each push that is under way, which a bulk send uses again and again: it goes from hand to hand (the
/// task that feeds, the client's loop, the task that reads outcomes), and only who has it touches it. That is what
/// makes it Sendable.
final class PendingSend: @unchecked Sendable {
  var push: EncodedPush
  /// The place among the pushes of its bulk send.
  var index = 0
  /// What became of it, for a bulk send.
  var result: Result<SendOutcome, PushRequestError>?
  /// The time that it has, in milliseconds.
  let timeoutMilliseconds: UInt64

  // Of the dispatcher.

  /// Rises with each push that a dispatcher takes: their order.
  var number: UInt64 = 0
  /// By the loop's clock.
  var deadlineMilliseconds = UInt64.max
  /// When it was put on a stream last.
  var sentMilliseconds: UInt64 = 0
  /// Requests that were made of it.
  var attempts = 0
  /// Whether a new token was made for it already.
  var hasNewToken = false
  /// Whether the caller has its outcome.
  private(set) var isFinished = false
  /// Where the outcome goes: to a caller, or to a bulk send, which outlives its pushes.
  private let completion: ((SendOutcome) -> Void)?
  private unowned let bulk: BulkJob?

  init(
    push: EncodedPush, timeoutMilliseconds: UInt64, completion: @escaping (SendOutcome) -> Void
  ) {
    self.push = push
    self.timeoutMilliseconds = timeoutMilliseconds
    self.completion = completion
    bulk = nil
  }

  init(bulk: BulkJob, timeoutMilliseconds: UInt64) {
    push = EncodedPush()
    self.timeoutMilliseconds = timeoutMilliseconds
    completion = nil
    self.bulk = bulk
  }

  func belongs(to job: BulkJob) -> Bool { bulk === job }

  /// Gives the caller its outcome; the first one counts.
  func finish(_ outcome: SendOutcome) {
    guard !isFinished else { return }
    isFinished = true
    completion?(outcome)
    guard let bulk else { return }
    result = .success(outcome)
    bulk.collect(self)
  }

  func finish(_ cause: UnknownCause, retryMayDuplicate: Bool) {
    finish(.unknown(cause, retryMayDuplicate: retryMayDuplicate))
  }

  /// Makes it ready for the next push. Nobody else may know of it.
  func reuse() {
    result = nil
    number = 0
    deadlineMilliseconds = .max
    attempts = 0
    hasNewToken = false
    isFinished = false
  }
}
