package import ApusWire

/// What is known of a device that gets nothing: responses of the administration, and the certificates on its machine.
package struct DeviceFacts: Sendable {
  /// `Device` of the administration API; nil if the service does not know the device.
  package var device: JSONValue?
  /// The newest lines of its ledger, oldest first.
  package var lines: [JSONValue] = []
  /// Refused requests for it, oldest first.
  package var refusedRequests: [JSONValue] = []
  /// Its refused connections, oldest first.
  package var refusedConnections: [JSONValue] = []
  /// When its known certificates end, Unix milliseconds; empty if none is known.
  package var certificateEnds: [Int64] = []
  package var nowMilliseconds: Int64
  /// The app in question; nil for all.
  package var topic: String?

  package init(nowMilliseconds: Int64) { self.nowMilliseconds = nowMilliseconds }
}

/// The likely cause why a device gets nothing: the first one in the order in which a notification meets them.
package struct DeviceDiagnosis: Sendable, Equatable {
  package enum Cause: String, Sendable, CaseIterable {
    case unknown
    case retired
    case certificateRefused = "certificate-refused"
    case certificateExpired = "certificate-expired"
    case neverConnected = "never-connected"
    case offline
    case topicNotRegistered = "topic-not-registered"
    case topicRemoved = "topic-removed"
    case topicIgnored = "topic-ignored"
    case topicPaused = "topic-paused"
    case powerSaving = "power-saving"
    case deadToken = "dead-token"
    case unacknowledged
    case requestRefused = "request-refused"
    case nothingSent = "nothing-sent"
    case discarded
    /// Nothing is wrong that the service can see.
    case none
  }

  package var cause: Cause
  package var text: String
  /// What to do; empty if nothing is wrong.
  package var remedy: String

  private init(_ cause: Cause, _ text: String, _ remedy: String) {
    (self.cause, self.text, self.remedy) = (cause, text, remedy)
  }

  package init(_ facts: DeviceFacts) {
    self =
      Self.ofIdentity(facts) ?? Self.ofConnection(facts) ?? Self.ofTopics(facts)
      ?? Self.ofNotifications(facts)
  }

  // MARK: Who it is

  private static func ofIdentity(_ facts: DeviceFacts) -> DeviceDiagnosis? {
    guard let device = facts.device else {
      if let refused = connectionRefused(facts, since: nil) { return refused }
      guard !facts.certificateEnds.isEmpty else {
        return DeviceDiagnosis(
          .unknown, "the service knows no such device",
          "Check the id or the name: `apus device list` shows both.")
      }
      return certificateExpired(facts) ?? neverConnected
    }
    guard let since = device["retired"]?.string else { return nil }
    return DeviceDiagnosis(
      .retired, "the device is retired since \(since)",
      "Its tokens are dead for good. Enrol it as a new device: `apus code`, or `apus device add`.")
  }

  private static let neverConnected = DeviceDiagnosis(
    .neverConnected, "the device has never connected",
    "Does its software run, with the address of the courier listener and the service's authority? "
      + "The service's log and `apus log --refused` show attempts.")

  private static func certificateExpired(_ facts: DeviceFacts) -> DeviceDiagnosis? {
    guard let end = facts.certificateEnds.max(), end < facts.nowMilliseconds else { return nil }
    return DeviceDiagnosis(
      .certificateExpired, "the device's certificate expired on \(DateTime.day(end))",
      "Devices renew in time while they are connected. Enrol it again: `apus code`.")
  }

  // MARK: Whether it is there

  private static func environments(_ facts: DeviceFacts) -> [JSONValue] {
    facts.device?["environments"]?.array ?? []
  }

  private static func ofConnection(_ facts: DeviceFacts) -> DeviceDiagnosis? {
    let environments = environments(facts)
    guard !environments.contains(where: { $0["connected"]?.bool == true }) else { return nil }
    let seen = facts.device?["last_seen"]?.string
    if let refused = connectionRefused(facts, since: seen) { return refused }
    if let expired = certificateExpired(facts) { return expired }
    guard !environments.isEmpty else { return neverConnected }
    return DeviceDiagnosis(
      .offline,
      "the device is offline" + (seen.map { " since \($0)" } ?? "") + waiting(facts),
      "Check its power and its network. What is stored is delivered when it connects.")
  }

  /// Its last connection was refused, unless it connected since. Times in one format compare as text.
  private static func connectionRefused(
    _ facts: DeviceFacts, since seen: String?
  ) -> DeviceDiagnosis? {
    guard let refused = facts.refusedConnections.last, let time = refused["time"]?.string,
      time >= seen ?? ""
    else { return nil }
    return DeviceDiagnosis(
      .certificateRefused,
      "the service refused the device at \(time): \(refused["reason"]?.string ?? "no reason")",
      refused["explanation"]?.string ?? "If it is its certificate, enrol it again: `apus code`.")
  }

  private static func waiting(_ facts: DeviceFacts) -> String {
    let stored = facts.device?["stored_notifications"]?.integer ?? 0
    return stored == 0 ? "" : "; \(stored) wait\(stored == 1 ? "s" : "") for it in the store"
  }

  // MARK: Its apps

  private static func ofTopics(_ facts: DeviceFacts) -> DeviceDiagnosis? {
    let connected = environments(facts).filter { $0["connected"]?.bool == true }
    let topics = connected.flatMap { environment in
      (environment["topics"]?.array ?? []).map { (topic: $0, environment: environment) }
    }.filter { facts.topic == nil || $0.topic["topic"]?.string == facts.topic }
    guard !topics.isEmpty else {
      return DeviceDiagnosis(
        .topicNotRegistered,
        "the device is connected and has not registered "
          + (facts.topic.map { "the app \($0)" } ?? "any app"),
        "Its software has to list the app: `apus listen --topic`, or the topics of its library.")
    }
    let problems = topics.map { ofTopic($0.topic, in: $0.environment) }
    // If some app can get something, what keeps the others is not why there is nothing.
    guard problems.allSatisfy({ $0 != nil }) else { return nil }
    return problems[0]
  }

  private static func ofTopic(
    _ topic: JSONValue, in environment: JSONValue
  ) -> DeviceDiagnosis? {
    let app = topic["topic"]?.string ?? "the app"
    let since = topic["since"]?.string.map { " since \($0)" } ?? ""
    let power = environment["power"]?.string ?? "active"
    switch topic["list"]?.string {
    case "unlisted":
      return DeviceDiagnosis(
        .topicRemoved, "\(app) is no longer registered on the device\(since)",
        "The app was removed, or the device's software no longer lists it. Its token is dead.")
    case "ignored":
      return DeviceDiagnosis(
        .topicIgnored, "the device ignores \(app)\(since): its user turned notifications off",
        "Only the device can change that.")
    case "paused":
      return DeviceDiagnosis(
        .topicPaused, "the device has paused \(app)\(since); notifications are kept",
        "They are delivered when the device takes the app off its paused list.")
    case "opportunistic" where power != "active":
      return DeviceDiagnosis(
        .powerSaving, "\(app) is opportunistic on the device, which saves power (\(power))",
        "Notifications are delivered when the device is active. Let it list the app as enabled.")
    default: return nil
    }
  }

  // MARK: Its notifications

  private static func ofNotifications(_ facts: DeviceFacts) -> DeviceDiagnosis {
    let lines = facts.lines.filter { line in
      facts.topic == nil || line["topic"]?.string == facts.topic
    }
    if let refused = refusal(facts, after: lines.last?["time"]?.string) { return refused }
    guard let last = lines.last else {
      return DeviceDiagnosis(
        .nothingSent, "no notification was sent to the device, as far as the ledger goes back",
        "Does the provider use this service and this device's token? `apus device show` has it.")
    }
    let connected = environments(facts).filter { $0["connected"]?.bool == true }
    func sum(_ name: String) -> Int64 { connected.reduce(0) { $0 + ($1[name]?.integer ?? 0) } }
    let (state, time) = (last["state"]?.string ?? "", last["time"]?.string ?? "")
    let cause = last["cause"]?.string.map { " (\($0))" } ?? ""
    if sum("in_flight") > 0 {
      return DeviceDiagnosis(
        .unacknowledged,
        "the device does not acknowledge: \(sum("in_flight")) were sent to it, and "
          + "\(sum("waiting")) wait behind them\(waiting(facts))",
        "Its software hangs, or its network loses what is sent. Restart it; the service ends the connection after a "
          + "minute of silence.")
    }
    if state.hasPrefix("Stored - Power") || state.hasPrefix("Stored") && sum("waiting") > 0 {
      return DeviceDiagnosis(
        .powerSaving, "the last notification waits until the device is active: \(state)\(cause)",
        "Send it with priority 10 to have it delivered at once.")
    }
    if state == "Discarded - Token Unregistered" {
      return DeviceDiagnosis(
        .deadToken, "the provider used a dead token at \(time)\(cause)",
        "Give the provider the device's present token: `apus device show` has it.")
    }
    if state.hasPrefix("Discarded") {
      return DeviceDiagnosis(
        .discarded, "the last notification ended at \(time) as \(state)\(cause)",
        "`apus log --device` shows all of its states.")
    }
    if state.hasPrefix("Delivered") {
      return DeviceDiagnosis(
        .none, "the device is connected and acknowledged its last notification at \(time)", "")
    }
    return DeviceDiagnosis(
      .none, "the device is connected, and a notification is on its way: \(state) at \(time)", "")
  }

  /// The last request, if it was refused.
  private static func refusal(_ facts: DeviceFacts, after time: String?) -> DeviceDiagnosis? {
    let refused = facts.refusedRequests.filter { request in
      facts.topic == nil || request["topic"]?.string == facts.topic
    }
    guard let last = refused.last, last["time"]?.string ?? "" > time ?? "" else { return nil }
    return DeviceDiagnosis(
      .requestRefused,
      "the last request for the device was refused at \(last["time"]?.string ?? ""): "
        + (last["reason"]?.string ?? ""),
      last["explanation"]?.string ?? "`apus log --refused` has the explanation.")
  }
}
