import ApusDirectory
import ApusEnrolment
import ApusStore

/// The workers' shared state; all workers can use each part at the same time.
struct Commons: Sendable {
  var configuration: ServerConfiguration
  var store: any DurableStore
  var order: AcceptanceOrder
  /// Limits the number of connections.
  var gate = ConnectionGate()
  /// Recent nonces of signed connect messages.
  var replays = ReplayGuard()
  /// Leases of feedback lists.
  var feedback = FeedbackDesk()
  var depot = NotificationDepot()
  /// Memory that notifications take.
  var memory = MemoryTotal()
  var audit: AuditLog
  var expiries: ExpiryWatch
  /// The queue of requests for certificates; nil without enrolment.
  var enrolment: EnrolmentQueue?
  /// The interceptor; nil in a normal service.
  var interception: SharedInterception?
}

extension Worker {
  var gate: ConnectionGate { commons.gate }
  var replays: ReplayGuard { commons.replays }
  var feedback: FeedbackDesk { commons.feedback }
  var depot: NotificationDepot { commons.depot }
  var audit: AuditLog { commons.audit }
  var expiries: ExpiryWatch { commons.expiries }
  var enrolment: EnrolmentQueue? { commons.enrolment }
  var interception: SharedInterception? { commons.interception }
}
