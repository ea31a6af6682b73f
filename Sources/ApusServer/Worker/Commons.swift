import ApusDirectory
import ApusEnrolment
import ApusStore

/// What the workers of a service have in common; each part can be used by all of them at once.
struct Commons: Sendable {
  var configuration: ServerConfiguration
  var store: any DurableStore
  var order: AcceptanceOrder
  /// How many connections there may be.
  var gate = ConnectionGate()
  /// Who has signed which connect message lately.
  var replays = ReplayGuard()
  /// Who reads which feedback.
  var feedback = FeedbackDesk()
  var depot = NotificationDepot()
  /// What notifications take in memory.
  var memory = MemoryTotal()
  var audit: AuditLog
  var expiries: ExpiryWatch
  /// Who decides on requests for certificates; nil where nobody does.
  var enrolment: EnrolmentQueue?
  /// Who listens in; nil in a real service.
  var rehearsal: RehearsalDesk?
}

extension Worker {
  var gate: ConnectionGate { commons.gate }
  var replays: ReplayGuard { commons.replays }
  var feedback: FeedbackDesk { commons.feedback }
  var depot: NotificationDepot { commons.depot }
  var audit: AuditLog { commons.audit }
  var expiries: ExpiryWatch { commons.expiries }
  var enrolment: EnrolmentQueue? { commons.enrolment }
  var rehearsal: RehearsalDesk? { commons.rehearsal }
}
