import ApusThread
import ApusClient
import ApusModel
import ApusServer
import ApusWeb
import ApusWire

/// Routes of the composer, for pushes sent by the console or a test.
struct SendRoutes {
  let context: DevContext

  private struct Wanted {
    var push: PushRequest
    var environment: Environment
    /// The device whose token is used.
    var device: String?
    /// The Live Activity of the device whose token is used.
    var activity: Int?
  }

  func answer(_ input: DevInput) throws(DevProblem) -> WebResponse {
    var wanted = try input.read { (reader) throws(InputFault) in try read(&reader) }
    if let device = wanted.device { wanted.push.token = try token(of: device, wanted) }
    return try send(wanted)
  }

  /// The token of the device for the topic, or that of its activity.
  private func token(of id: String, _ wanted: Wanted) throws(DevProblem) -> String {
    let topic = wanted.push.topic ?? ""
    let (environment, activity) = (wanted.environment, wanted.activity)
    let isForRunning = activity == nil && Self.isForRunningActivity(wanted.push)
    let token: String?? = try context.ask { devices, done in
      guard let device = devices.device(id), let link = device.links[environment] else {
        return done(.none)
      }
      if let activity { return done(.some(device.activities.token(activity)?.hex)) }
      let running =
        isForRunning
        ? device.activities.newestToken(
          topic: topic, environment, at: devices.activities.nowSeconds) : nil
      done(.some((running ?? link.tokens[topic] ?? link.deadTokens[topic])?.hex))
    }
    guard let known = token else {
      throw DevProblem(.notFound, "the device \"\(id)\" does not exist")
    }
    guard let found = known else {
      guard let activity else {
        throw DevProblem(
          .conflict, "\(id) has no token for \(topic) in \(environment.name)", field: "topic")
      }
      throw DevProblem(
        .conflict, "\(id) has no Live Activity \(activity) with a token", field: "activity")
    }
    return found
  }

  /// Whether the push changes or ends a Live Activity, for which an app's server uses the activity's token.
  private static func isForRunningActivity(_ push: PushRequest) -> Bool {
    guard DeviceBook.suffix(of: push.topic ?? "") == .liveActivity else { return false }
    let event = (try? JSONValue(parsing: push.payload.span))?["aps"]?["event"]?.string
    return event == "update" || event == "end"
  }

  private func read(_ reader: inout FieldReader) throws(InputFault) -> Wanted {
    let token = try reader.string("token", maximumBytes: 256)
    let device = try reader.string("device", maximumBytes: 64)
    let channel = try reader.string("channel", maximumBytes: 256)
    guard [token, device, channel].count(where: { $0 != nil }) == 1 else {
      throw InputFault("must have exactly one of token, device and channel")
    }
    let activity = try reader.integer("activity", 1...Int64(Int32.max))
    guard activity == nil || device != nil else {
      throw reader.fault("activity", "needs device")
    }
    let types = PushType.allCases.map { ("\($0.name)", $0) }
    var push = PushRequest(
      token: token ?? "", topic: try reader.string("topic") ?? context.facts.topics.first,
      pushType: try reader.choice("pushType", types) ?? (channel == nil ? .alert : .liveactivity),
      payload: [])
    push.channel = try channel.map { (text) throws(InputFault) in
      guard let id = BroadcastChannel.ID(text) else {
        throw reader.fault("channel", "must be the id of a channel: base64")
      }
      return id
    }
    if let number = try reader.integer("priority", 1...10) {
      guard let priority = Priority(rawValue: UInt8(number)) else {
        throw reader.fault("priority", "must be 1, 5 or 10")
      }
      push.priority = priority
    }
    let environment = try reader.environment()
    push.payload = try payload(&reader)
    push.expirationSeconds = try reader.integer("expiration", 0...Int64.max)
    push.collapseID = try reader.string("collapseID")
    push.id = try id(reader.string("apnsID"), &reader, "apnsID")
    if var headers = try reader.object("headers") { try readHeaders(&headers, &push) }
    return Wanted(
      push: push, environment: environment ?? .production, device: device,
      activity: activity.map(Int.init))
  }

  /// An object, or a text that is sent unchanged.
  private func payload(_ reader: inout FieldReader) throws(InputFault) -> [UInt8] {
    let payload = try reader.required(reader.value("payload"), "payload")
    if let text = payload.string { return Array(text.utf8) }
    guard payload.object != nil else {
      throw reader.fault("payload", "must be an object, or a text, which is sent unchanged")
    }
    return payload.bytes
  }

  private func id(
    _ text: String?, _ reader: inout FieldReader, _ name: String
  ) throws(InputFault) -> NotificationID? {
    guard let text else { return nil }
    guard let id = NotificationID(string: text) else {
      throw reader.fault(name, "must be 8-4-4-4-12 hexadecimal digits")
    }
    return id
  }

  /// Reads the same values by their header names.
  private func readHeaders(
    _ headers: inout FieldReader, _ push: inout PushRequest
  ) throws(InputFault) {
    func name(_ header: HeaderName) -> String { "\(header.text)" }
    func number(_ header: HeaderName) throws(InputFault) -> Int64? {
      guard let value = headers.value(name(header)) else { return nil }
      guard let number = value.integer ?? value.string.flatMap({ Int64($0) }) else {
        throw headers.fault(name(header), "must be a number")
      }
      return number
    }
    if let seconds = try number(.apnsExpiration) { push.expirationSeconds = seconds }
    if let value = try number(.apnsPriority) {
      guard let priority = UInt8(exactly: value).flatMap(Priority.init(rawValue:)) else {
        throw headers.fault(name(.apnsPriority), "must be 1, 5 or 10")
      }
      push.priority = priority
    }
    if let id = try headers.string(name(.apnsCollapseID)) { push.collapseID = id }
    if let topic = try headers.string(name(.apnsTopic)) { push.topic = topic }
    let types = PushType.allCases.map { ("\($0.name)", $0) }
    if let type = try headers.choice(name(.apnsPushType), types) { push.pushType = type }
    let text = try headers.string(name(.apnsID))
    if let id = try id(text, &headers, name(.apnsID)) { push.id = id }
    try headers.finish()
  }

  // MARK: Sending

  private func send(_ wanted: Wanted) throws(DevProblem) -> WebResponse {
    let box = Monitor<Result<SendOutcome, DevProblem>?>(nil)
    let (push, environment) = (wanted.push, wanted.environment)
    Task { [composer = context.composer] in
      let result: Result<SendOutcome, DevProblem>
      do throws(DevProblem) {
        result = .success(try await composer.send(push, to: environment))
      } catch {
        result = .failure(error)
      }
      box.notify { $0 = result }
    }
    let outcome = try box.take().get()
    return response(outcome, push.token)
  }

  private func response(_ outcome: SendOutcome, _ token: String) -> WebResponse {
    let id: NotificationID? =
      switch outcome {
      case .accepted(let id, _): id
      case .rejected(let rejection): rejection.apnsID
      case .unknown: nil
      }
    let found = id.flatMap { id in
      context.recorder.read { state in state.number(of: id).flatMap { state.inbox[$0] } }
    }
    return WebResponse { writer in
      writer.text("token", token)
      // As the inbox and its matchers know it; before it is there, as the client spells it.
      writer.text("apnsID", found?.exchange.apnsID ?? id?.text.lowercased())
      writer.integer("number", found.map { Int64(clamping: $0.number) })
      writer.key("verdict")
      writer.beginObject()
      switch outcome {
      case .accepted(_, let uniqueID):
        writer.integer("status", 200)
        writer.key("accepted")
        writer.bool(true)
        writer.text("uniqueID", uniqueID)
      case .rejected(let rejection):
        writer.integer("status", Int64(rejection.status))
        writer.key("accepted")
        writer.bool(false)
        writer.text("reason", rejection.reason.rawValue)
        writer.integer("timestampMilliseconds", rejection.timestampMilliseconds)
        writer.integer("retryAfterSeconds", rejection.retryAfterSeconds.map(Int64.init))
        writer.text("explanation", found?.exchange.explanation)
      case .unknown(let cause, let mayDuplicate):
        writer.key("status")
        writer.null()
        writer.key("accepted")
        writer.bool(false)
        writer.text("unknown", "\(cause)")
        writer.key("retryMayDuplicate")
        writer.bool(mayDuplicate)
      }
      writer.text("fault", found?.exchange.fault)
      writer.endObject()
      found?.writeViolations(to: &writer)
    }
  }
}
