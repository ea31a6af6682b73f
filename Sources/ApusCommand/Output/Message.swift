package import ApusModel

/// A notification as `apus send` was asked for it, before it knows where credentials come from.
package struct Message: Sendable {
  /// The whole payload, as JSON.
  package var payload: String
  package var token: String
  package var pushType: PushType
  package var priority: Priority?
  package var expiration: Expiration?
  package var collapseID: String?
  package var id: NotificationID?

  /// - Parameter readFile: Gives the text of the file of `--payload-file`.
  package init(
    _ invocation: Invocation, readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    let composed = MessagePayload(invocation)
    payload = try Self.payload(invocation, composed, readFile)
    token = try invocation.require(ApusOptions.token)
    let isBackground = composed.isContentAvailable && !composed.isVisible
    pushType = invocation[ApusOptions.pushType] ?? (isBackground ? .background : .alert)
    // A background notification of priority 10 is rejected: "Pushing background updates to your app".
    priority = invocation[ApusOptions.priority] ?? (pushType == .background ? .powerSaving : nil)
    expiration = invocation[ApusOptions.expiration]
    collapseID = invocation[ApusOptions.collapseID]
    id = invocation[ApusOptions.id]
  }

  private static func payload(
    _ invocation: Invocation, _ composed: MessagePayload,
    _ readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) -> String {
    let given = invocation[ApusOptions.payload]
    let file = invocation[ApusOptions.payloadFile]
    let sources = [given != nil, file != nil, !composed.isEmpty].count { $0 }
    guard sources == 1 else {
      let problem =
        sources == 0
        ? "there is nothing to send" : "the payload is given in more than one way"
      throw CommandFailure(
        .usage, problem,
        remedy: "Give --alert TEXT and its like, or --payload JSON, or --payload-file FILE.")
    }
    // Whether a file holds JSON is the service's to judge: that is how its answer can be seen.
    if let file { return try readFile(file) }
    return given ?? composed.json.text
  }
}
