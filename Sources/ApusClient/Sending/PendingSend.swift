/// A push between its caller and its outcome.
///
/// One object for each push, which a bulk send reuses. It passes between the feeding task, the client's loop and the
/// reading task, and only its current owner touches it. That makes it Sendable.
final class PendingSend: @unchecked Sendable {
  var push: EncodedPush
  /// The position in its bulk send.
  var index = 0
  /// The result, for a bulk send.
  var result: Result<SendOutcome, PushRequestError>?
  /// The answer to a request about channels, once the service accepted it.
  var answer: ChannelAnswer?
  /// The timeout in milliseconds.
  let timeoutMilliseconds: UInt64

  // Used by the dispatcher only.

  /// The order in which the dispatcher took the pushes.
  var number: UInt64 = 0
  /// By the loop's clock.
  var deadlineMilliseconds = UInt64.max
  /// When it was last put on a stream.
  var sentMilliseconds: UInt64 = 0
  /// Requests that were made for it.
  var attempts = 0
  /// Whether a new token was already created for it.
  var hasNewToken = false
  /// Whether the caller has its outcome.
  private(set) var isFinished = false
  /// Delivers the outcome to a caller. Bulk sends, which outlive their pushes, use `bulk` instead.
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

  /// Delivers the outcome to the caller; only the first call counts.
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

  /// Prepares the object for the next push. Nobody else may hold it.
  func reuse() {
    result = nil
    number = 0
    deadlineMilliseconds = .max
    attempts = 0
    hasNewToken = false
    isFinished = false
  }
}
