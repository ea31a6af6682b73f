package import ApusCore
package import ApusDirectory
package import ApusModel
package import ApusStore

/// Sends notifications upstream whose device tokens this service did not issue.
///
/// Workers call it on their threads, several at once. It must not block.
package protocol UpstreamRelay: Sendable {
  /// Uses the upstreams of `trust` from now on. Called before the workers judge by it.
  func trustReplaced(_ trust: Trust)

  /// Starts to send what is in the store. Called once, before the workers start.
  func start(_ host: RelayHost) throws

  /// Sends a notification to its app's upstream, and calls `done` once, on any thread. Notifications that are certain
  /// not to have arrived may be sent again within the time limit, with the same id; others never.
  func forward(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void)

  /// Writes a notification to the store, and sends it to its app's upstream until there is an answer or its time is
  /// over. False if too many wait to be written.
  func keep(_ notification: KeptNotification) -> Bool

  /// The same for several, from the front: removes those from the array that are taken, and leaves the others.
  func keep(contentsOf notifications: inout [KeptNotification])

  /// Counts a notification of an app, if the quotas of app and team let it go upstream now. Returns 0 then, else the
  /// seconds until one may go.
  func admit(_ app: AppID) -> Int

  /// Counts a notification that goes in any case, and returns the seconds until the next one may.
  func charge(_ app: AppID) -> Int

  /// Whether so much is kept that providers must wait.
  var isFull: Bool { get }

  /// A worker has dealt with a refusal.
  ///
  /// - Parameter isReported: Whether the sender is told; if not, the feedback list has to say it.
  func settled(_ refusal: RelayRefusal, isReported: Bool)

  /// Calls `done` with the figures of all apps of which something was kept or sent, on any thread.
  func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void)

  /// Calls `done` with the counters of everything that was kept since the data directory was created, on any thread.
  func reportCounters(_ done: @escaping @Sendable ([TopicCounters]) -> Void)

  /// Each upstream's address, and the number of connections to it.
  func connections() -> [(upstream: String, count: Int)]

  /// Carries out a command of the operator for both environments of an app.
  func obey(_ command: RelayCommand, _ app: AppID)

  /// Ends everything at once: the service has answered what it could.
  func stop()
}

/// What a relay needs of its service.
package struct RelayHost: Sendable {
  package let store: any DurableStore
  package let order: AcceptanceOrder
  /// Brings decisions to a worker, given its index.
  package let deliver: @Sendable (_ worker: Int, [Verdict]) -> Void
  /// Brings a late refusal to a worker, given its index, which answers with ``UpstreamRelay/settled(_:isReported:)``.
  package let refuse: @Sendable (_ worker: Int, RelayRefusal) -> Void
  /// Which notifications the ledger follows, and how much of it is the relay's.
  package let ledger: (mode: LedgerMode, bounds: LedgerBounds)
  /// Hears of lines of the ledger as they are noted, in order.
  package let noted: @Sendable ([LedgerEvent]) -> Void
  /// So many lines of the ledger were lost because the store fails.
  package let lost: @Sendable (_ lineCount: Int) -> Void
  /// Nothing more goes upstream for an app until an operator acts, for that reason.
  package let failing: @Sendable (AppID, Environment, _ reason: String) -> Void
  /// Lets the workers read on from providers that had to wait, see ``UpstreamRelay/isFull``.
  package let readOn: @Sendable () -> Void
}

/// A notification that a relay is to keep, and who waits for that.
package struct KeptNotification: Sendable {
  package var notification: RelayedNotification
  /// Unix milliseconds.
  package var acceptedMilliseconds: Int64
  package var waiter: Waiter

  package enum Waiter: Sendable {
    /// A frame of the binary interface, which gets a verdict, and maybe a ``RelayRefusal`` later.
    case frame(Answer)
    /// Called once, on any thread, with whether the store has the notification.
    case request(@Sendable (_ isKept: Bool) -> Void)

    /// The frame, if it is one.
    package var frame: Answer? {
      if case .frame(let answer) = self { answer } else { nil }
    }
  }
}

/// Upstream has rejected a notification that was accepted before.
package struct RelayRefusal: Sendable {
  /// The frame.
  package var answer: Answer
  package var id: NotificationID
  package var status: BinaryStatus
  /// Where the relay finds the notification.
  package var topic: TopicKey
  package var environment: Environment
  package var order: UInt64

  package init(
    answer: Answer, id: NotificationID, status: BinaryStatus, topic: TopicKey,
    environment: Environment, order: UInt64
  ) {
    self.answer = answer
    self.id = id
    self.status = status
    self.topic = topic
    self.environment = environment
    self.order = order
  }
}
