package import ApusCore

/// A bulk send without an end, of notifications that other providers sent, for a relay.
///
/// One thread puts notifications in, passes on what has gathered, and takes answers: each costs it no lock, and the
/// client's thread is woken once for all. Different ones of a client take turns; single sends come before them.
package final class RelayedSends: @unchecked Sendable {
  private let job: BulkJob
  private let client: APNSClient
  private let bundleID: [UInt8]
  /// Tells the relay's thread that there are answers.
  private var wake: @Sendable () -> Void = {}
  private var vacant: [BulkPush] = []
  private var filled: [BulkPush] = []
  private var answered: [BulkPush] = []
  /// Notifications without an answer.
  package private(set) var openCount = 0

  /// - Parameters:
  ///   - bundleID: That of the app at the service.
  ///   - capacity: The most notifications without an answer.
  ///   - wake: Called on any thread when there are answers: then call `takeAnswers`.
  package init(
    _ client: APNSClient, to bundleID: [UInt8], capacity: Int,
    wake: @escaping @Sendable (RelayedSends) -> Void
  ) {
    job = client.bulkJob(capacity: capacity, isEndless: true)
    self.client = client
    self.bundleID = bundleID
    self.wake = { [weak self] in if let self { wake(self) } }
    _ = job.callForOutcomes(self.wake)
  }

  deinit { job.cancel() }

  /// Whether these are the sends of that client to that app.
  package func go(through client: APNSClient, to bundleID: [UInt8]) -> Bool {
    self.client === client && self.bundleID == bundleID
  }

  /// Adds a notification to those that `flush` sends. False if there is no room, or the client is closed.
  ///
  /// - Parameters:
  ///   - tag: Names it in its answer.
  ///   - now: Of the monotonic clock. The client's timeout begins then.
  package func put(
    _ notification: RelayedNotification, tag: UInt64, nowMilliseconds now: UInt64
  ) -> Bool {
    if vacant.isEmpty {
      guard case .some = job.vacancies(&vacant) else { return false }
    }
    let push = vacant.removeLast()
    push.send.index = Int(bitPattern: UInt(tag))
    push.send.push.encode(relaying: notification, to: bundleID)
    push.send.deadlineMilliseconds = now + push.send.timeoutMilliseconds
    filled.append(push)
    return true
  }

  /// Passes on what was put in.
  package func flush() {
    guard !filled.isEmpty else { return }
    openCount += filled.count
    job.submit(&filled)
  }

  /// Calls `body` with each answer, in no particular order.
  package func takeAnswers(_ body: (_ tag: UInt64, UpstreamAnswer) -> Void) {
    repeat {
      while case .some = job.exchange(&answered) {
        openCount -= answered.count
        for push in answered {
          guard case .success(let outcome) = push.send.result.take() else {
            preconditionFailure("a relayed push without its outcome")
          }
          push.send.push.clear()
          body(UInt64(UInt(bitPattern: push.send.index)), UpstreamAnswer(outcome))
        }
      }
    } while !job.callForOutcomes(wake)
  }
}
