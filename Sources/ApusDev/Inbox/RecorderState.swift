import ApusDevice
import ApusCore
import ApusModel
import ApusServer

/// The inbox and related state, protected by the recorder's lock.
struct RecorderState: Sendable {
  private(set) var inbox: PushInbox
  var events: EventLog
  var report = ViolationReport()
  var isStopping = false
  /// Number of reports dropped because the queue was full.
  var dropped: UInt64 = 0
  private(set) var accepted: UInt64 = 0
  private(set) var refused: UInt64 = 0
  private(set) var faults: UInt64 = 0
  private var watch = ConnectionWatch()
  /// The number of the latest push of each notification in the inbox.
  private var numbers: [NotificationID: UInt64] = [:]
  /// Reports about notifications before the provider's response; a device can be faster.
  private var early: [NotificationID: Early] = [:]
  private var earlyOrder: [NotificationID] = []
  private var updated: Set<UInt64> = []
  /// Devices with new notifications.
  private var touched: Set<String> = []

  /// Names of rules whose violations are not reported.
  private let allowedRules: Set<String>

  private struct Early {
    var states: [CapturedPush.State] = []
    var arrivals: [Arrival] = []
  }

  /// Maximum number of notifications with early reports.
  private static let earlyCapacity = 16_384

  init(keep: Int, keepBytes: Int, allowedRules: Set<String> = [], firstEvent: UInt64) {
    self.allowedRules = allowedRules
    inbox = PushInbox(keep: keep, keepBytes: keepBytes)
    events = EventLog(first: firstEvent)
  }

  mutating func add(_ push: CapturedPush) {
    var push = push
    push.violations = (Self.lint(push) + watch.check(push.exchange, number: push.number))
      .filter { !allowedRules.contains($0.rule) }
    if push.exchange.isAccepted { accepted += 1 } else { refused += 1 }
    if push.exchange.fault != nil { faults += 1 }
    for violation in push.violations { report.add(violation, of: push) }
    for id in Self.ids(of: push) {
      numbers[id] = push.number
      guard let early = early.removeValue(forKey: id) else { continue }
      push.states += early.states
      for arrival in early.arrivals { push.add(arrival) }
    }
    for gone in inbox.append(push) {
      for id in Self.ids(of: gone) where numbers[id] == gone.number { numbers[id] = nil }
    }
    events.append(.push(push.number))
  }

  /// The number of the latest push of a notification.
  func number(of id: NotificationID) -> UInt64? { numbers[id] }

  /// The ids of a push: ledger lines have its unique id and its `apns-id`, devices only the latter.
  private static func ids(of push: CapturedPush) -> [NotificationID] {
    let texts = [push.exchange.uniqueID, push.exchange.apnsID]
    var ids = texts.compactMap { text in
      text.flatMap { text -> NotificationID? in
        let bytes = Array(text.utf8)
        return NotificationID(text: bytes.span)
      }
    }
    if let id = push.exchange.notificationID, !ids.contains(id) { ids.append(id) }
    return ids
  }

  private static func lint(_ push: CapturedPush) -> [Violation] {
    let request = push.request
    let type = request.pushType.flatMap { text -> PushType? in
      let bytes = Array(text.utf8)
      return PushType(headerValue: bytes.span)
    }
    var context = LintContext(
      pushType: type, topic: request.topic,
      priority: request.priority.flatMap { UInt8($0) }.flatMap(Priority.init),
      expirationSeconds: request.expirationSeconds,
      collapseIDByteCount: request.collapseID?.utf8.count,
      nowSeconds: request.receivedMilliseconds / 1000)
    context.isBroadcast = request.channel != nil
    let findings = PayloadLint.findings(in: request.payload.span, context).filter {
      // The binary interface has no push type.
      request.interface == .http2 || $0.rule != .pushTypeMissing
    }
    var violations = findings.map(Violation.init)
    if let body = push.preview?.presentation.body, body.count > ConnectionWatch.textCharacters {
      violations.append(
        Violation(
          .textLong,
          "has \(body.count) characters; a phone shows about \(ConnectionWatch.textCharacters), "
            + "and the rest when the notification is opened.", at: "aps.alert.body"))
    }
    return violations
  }

  // MARK: Later reports

  mutating func add(_ event: LedgerEvent, _ milliseconds: Int64) {
    let state = CapturedPush.State(
      state: event.state, milliseconds: milliseconds, cause: event.causeText)
    let ids = [event.facts.uniqueID, event.facts.id]
    for id in ids {
      if let number = numbers[id], inbox.update(number, { $0.states.append(state) }) {
        updated.insert(number)
        return
      }
    }
    // Under the id that the response always has.
    withEarly(event.facts.id) { $0.states.append(state) }
  }

  mutating func add(_ arrival: Arrival) {
    touched.insert(arrival.device)
    if let number = numbers[arrival.id], inbox.update(number, { $0.add(arrival) }) {
      updated.insert(number)
    } else {
      withEarly(arrival.id) { $0.arrivals.append(arrival) }
    }
  }

  private mutating func withEarly(_ id: NotificationID, _ body: (inout Early) -> Void) {
    if early[id] == nil {
      earlyOrder.append(id)
      if earlyOrder.count > Self.earlyCapacity {
        early[earlyOrder.removeFirst()] = nil
      }
    }
    body(&early[id, default: Early()])
  }

  mutating func closed(_ connection: InterceptedConnection, _ milliseconds: Int64) {
    guard let (number, violation) = watch.closed(connection, nowMilliseconds: milliseconds),
      !allowedRules.contains(violation.rule), let push = inbox[number]
    else { return }
    report.add(violation, of: push)
    _ = inbox.update(number) { $0.violations.append(violation) }
    updated.insert(number)
  }

  /// Reports each changed push once.
  mutating func endBatch() {
    for number in updated.sorted() { events.append(.update(number)) }
    for device in touched.sorted() { events.append(.device(device)) }
    updated.removeAll(keepingCapacity: true)
    touched.removeAll(keepingCapacity: true)
    // Removes answered notifications from the order.
    if earlyOrder.count > 2 * early.count + 1024 { earlyOrder.removeAll { early[$0] == nil } }
  }

  mutating func clear() {
    inbox.clear()
    numbers = [:]
    events.append(.cleared)
  }
}
