package import ApusModel
import ApusWire

/// A notification from the options of `apus send`, without credentials.
package struct Message: Sendable {
  /// The whole payload, as JSON.
  package var payload: String
  /// Empty in a broadcast.
  package var token: String
  /// The id of a broadcast's channel.
  package var channel: String?
  /// The topic of a row in a list; nil if the options or the credentials have it.
  package var topic: String?
  package var pushType: PushType
  package var priority: Priority?
  package var expiration: Expiration?
  package var collapseID: String?
  package var id: NotificationID?

  /// - Parameters:
  ///   - needsToken: False for devices that the service knows by name or tag; the token is then empty.
  ///   - readFile: Returns the text of the file of `--payload-file`.
  package init(
    _ invocation: Invocation, needsToken: Bool = true,
    readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    let payload = try Self.payload(invocation, isNeeded: true, readFile)
    let isBroadcast = invocation[ApusOptions.channel] != nil
    if isBroadcast, invocation[ApusOptions.token] != nil {
      throw CommandFailure(
        .usage, "--token is a device and --channel its subscribers", remedy: "Give one of them.")
    }
    let token = needsToken && !isBroadcast ? try invocation.require(ApusOptions.token) : ""
    self.init(invocation, payload: payload, token: token)
    if invocation.isOn(SendOptions.shorten) { shorten() }
  }

  /// The part that all rows of a list share. The payload is empty if each row has its own.
  init(
    list invocation: Invocation, readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    let single = [
      ("--token", invocation[ApusOptions.token] != nil),
      ("--channel", invocation[ApusOptions.channel] != nil),
      ("--id", invocation[ApusOptions.id] != nil),
    ]
    if let (flag, _) = single.first(where: \.1) {
      throw CommandFailure(
        .usage, "\(flag) is for one notification, --tokens is for many",
        remedy: "Give one of them; a row can have a field with that name.")
    }
    let payload = try Self.payload(invocation, isNeeded: false, readFile)
    self.init(invocation, payload: payload, token: "")
  }

  private init(_ invocation: Invocation, payload: String, token: String) {
    self.payload = payload
    self.token = token
    let composed = MessagePayload(invocation)
    let isBackground = composed.isContentAvailable && !composed.isVisible
    pushType = invocation[ApusOptions.pushType] ?? (isBackground ? .background : .alert)
    // APNs rejects a background notification with priority 10. Source: Pushing background updates to your app.
    priority = invocation[ApusOptions.priority] ?? (pushType == .background ? .powerSaving : nil)
    expiration = invocation[ApusOptions.expiration]
    collapseID = invocation[ApusOptions.collapseID]
    id = invocation[ApusOptions.id]
    if let channel = invocation[ApusOptions.channel] {
      become(
        broadcastTo: channel, type: invocation[ApusOptions.pushType],
        priority: invocation[ApusOptions.priority])
    }
  }

  /// Makes it a broadcast, whose push type and priority have other defaults.
  ///
  /// - Parameters:
  ///   - type: The push type that was given.
  ///   - priority: The priority that was given.
  mutating func become(broadcastTo channel: String, type: PushType?, priority: Priority?) {
    self.channel = channel
    token = ""
    pushType = type ?? .liveactivity
    self.priority = priority
  }

  /// What its topic has after the bundle id.
  package var topicSuffix: TopicSuffix { channel == nil ? pushType.topicSuffix : .none }

  /// Changes the push type, and the priority to match if none was given.
  mutating func take(_ type: PushType) {
    if type == .background, pushType != .background, priority == nil { priority = .powerSaving }
    pushType = type
  }

  /// Shortens the text so that the payload fits, if possible.
  mutating func shorten() {
    let limit =
      channel != nil
      ? Limits.broadcastPayloadBytes
      : pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
    payload = PayloadShortening.shorten(payload, toBytes: limit) ?? payload
  }

  private static func payload(
    _ invocation: Invocation, isNeeded: Bool,
    _ readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) -> String {
    let composed = MessagePayload(invocation)
    let given = invocation[ApusOptions.payload]
    let file = invocation[ApusOptions.payloadFile]
    let edits = invocation.all(SendOptions.set)
    let sources = [given != nil, file != nil, !composed.isEmpty].count { $0 }
    guard sources == 1 || sources == 0 && (!edits.isEmpty || !isNeeded) else {
      let problem =
        sources == 0
        ? "the notification has no payload" : "the payload is given in more than one way"
      throw CommandFailure(
        .usage, problem,
        remedy: "Give --alert TEXT and similar options, or --payload JSON, or --payload-file FILE.")
    }
    // The service decides whether a file is valid JSON, so that its response to bad JSON can be tested.
    var text = given ?? ""
    if let file { text = try readFile(file) }
    if !composed.isEmpty { text = composed.json.text }
    guard !edits.isEmpty else { return text }
    guard var json = text.isEmpty ? composed.json : JSONValue(text: text) else {
      throw invocation.failure(
        about: SendOptions.set, "cannot set a key: the payload is not JSON")
    }
    for edit in edits { edit.apply(to: &json) }
    return json.text
  }
}
