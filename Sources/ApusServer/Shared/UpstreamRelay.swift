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

  /// Goes on with what is in the store. Called once, before the listeners open.
  func start(_ host: RelayHost) throws

  /// Sends a notification to its app's upstream, and calls `done` once, on any thread. Notifications that are certain
  /// not to have arrived may be sent again within the time limit, with the same id; others never.
  func forward(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void)

  /// Writes a notification to the store, and sends it to its app's upstream until there is an answer or its time is
  /// over. False if too many wait to be written.
  func keep(_ notification: KeptNotification) -> Bool

  /// Whether so much is kept that providers must wait.
  var isFull: Bool { get }

  /// Ends everything at once: the service has answered what it could.
  func stop()
}

/// What a relay needs of its service.
package struct RelayHost: Sendable {
  package let store: any DurableStore
  package let order: AcceptanceOrder
  /// Brings decisions to a worker, given its index.
  package let deliver: @Sendable (_ worker: Int, [Verdict]) -> Void
  /// Lets the workers read on from providers that had to wait, see ``UpstreamRelay/isFull``.
  package let readOn: @Sendable () -> Void
}

/// A notification that a relay is to keep, and who waits for that.
package struct KeptNotification: Sendable {
  package var notification: RelayedNotification
  /// Unix milliseconds.
  package var acceptedMilliseconds: Int64
  package var interface: ProviderInterface
  /// Who gets the decision: none if the store has it, else the service's own fault.
  package var answer: Answer
}
