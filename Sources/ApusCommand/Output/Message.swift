package import ApusModel
import ApusWire

/// A notification as `apus send` was asked for it, before it knows where credentials come from.
package struct Message: Sendable {
  /// The whole payload, as JSON.
  package var payload: String
  package var token: String
  /// That of a row in a list; nil where the options or the credentials have it.
  package var topic: String?
  package var pushType: PushType
  package var priority: Priority?
  package var expiration: Expiration?
  package var collapseID: String?
  package var id: NotificationID?

  /// - Parameter readFile: Gives the text of the file of `--payload-file`.
  package init(
    _ invocation: Invocation, readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    let payload = try Self.payload(invocation, isNeeded: true, readFile)
    self.init(invocation, payload: payload, token: try invocation.require(ApusOptions.token))
    if invocation.isOn(SendOptions.shorten) { shorten() }
  }

  /// What the rows of a list have in common. The payload is empty where each row has its own.
  init(
    list invocation: Invocation, readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    let single = [
      ("--token", invocation[ApusOptions.token] != nil),
      ("--id", invocation[ApusOptions.id] != nil),
    ]
    if let (flag, _) = single.first(where: \.1) {
      throw CommandFailure(
        .usage, "\(flag) is for one notification, and --tokens for many",
        remedy: "Give one of them; a row can have a field of that name.")
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
    // A background notification of priority 10 is rejected: "Pushing background updates to your app".
    priority = invocation[ApusOptions.priority] ?? (pushType == .background ? .powerSaving : nil)
    expiration = invocation[ApusOptions.expiration]
    collapseID = invocation[ApusOptions.collapseID]
    id = invocation[ApusOptions.id]
  }

  /// Becomes another kind of push, with the priority that belongs to it where nobody named one.
  mutating func take(_ type: PushType) {
    if type == .background, pushType != .background, priority == nil { priority = .powerSaving }
    pushType = type
  }

  /// Makes the payload fit, where its text can be shortened.
  mutating func shorten() {
    let limit = pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
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
        ? "there is nothing to send" : "the payload is given in more than one way"
      throw CommandFailure(
        .usage, problem,
        remedy: "Give --alert TEXT and its like, or --payload JSON, or --payload-file FILE.")
    }
    // Whether a file holds JSON is the service's to judge: that is how its answer can be seen.
    var text = given ?? ""
    if let file { text = try readFile(file) }
    if !composed.isEmpty { text = composed.json.text }
    guard !edits.isEmpty else { return text }
    guard var json = text.isEmpty ? composed.json : JSONValue(text: text) else {
      throw invocation.failure(
        about: SendOptions.set, "the payload is not JSON, so that no key can be set in it")
    }
    for edit in edits { edit.apply(to: &json) }
    return json.text
  }
}
