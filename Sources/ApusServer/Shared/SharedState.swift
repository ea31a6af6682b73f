import ApusAdmin
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusStore
import ApusWebhooks

/// The workers' shared state; all workers can use each part at the same time.
struct SharedState: Sendable {
  var configuration: ServerConfiguration
  var store: any DurableStore
  var order: AcceptanceOrder
  /// Limits the number of connections.
  var gate = ConnectionGate()
  /// Recent nonces of signed connect messages.
  var replays = ReplayGuard()
  var feedback = SharedFeedbackLeases()
  var notificationPool = NotificationPool()
  /// Memory that notifications take.
  var memory = MemoryTotal()
  var channels: ChannelRegister
  /// What legacy senders will send again.
  var resends: ResendRegister
  /// Nil in a simulation.
  var channelMetrics: ChannelMetrics?
  var audit: AuditLog
  /// Names and tags of devices; nil without a data directory.
  var labels: LabelRegister?
  /// What webhooks are told.
  var events = EventSink()
  var expiries: ExpiryWatch
  /// The queue of requests for certificates; nil without enrolment.
  var enrolment: EnrolmentQueue?
  /// Answers what the administration of other nodes passes on; nil without one.
  var admin: AdminServer?
  /// The nodes that decide about other devices.
  var edges = Edges(.all)
  /// The interceptor; nil in a normal service.
  var interception: SharedInterception?
}
