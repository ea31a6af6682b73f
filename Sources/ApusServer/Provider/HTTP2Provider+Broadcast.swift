import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust

// `POST /4/broadcasts/apps/BUNDLE-ID`, at the listener for notifications.

extension HTTP2Request {
  var isBroadcast: Bool { BroadcastAdmission.concerns(value(.path)) }
}

extension HTTP2Provider {
  func decideOnBroadcast(_ request: HTTP2Request) {
    do throws(Refusal) {
      try judgeBroadcast(request, request.content)
    } catch {
      refuseChannel(request, error)
    }
  }

  private func judgeBroadcast(
    _ request: HTTP2Request, _ content: borrowing RequestRecord
  ) throws(Refusal) {
    let bundle = try BroadcastAdmission.examineHead(
      content.fields, headerListTooLarge: request.headerListTooLarge)
    let grant = try authenticate(request, content, context.trust.directory)
    guard !connection.isLeaving else { return session.putBack(request) }
    try judgeBroadcast(request, content, of: bundle, grant)
  }

  /// The checks behind the credential.
  ///
  /// - Parameter bundle: Where the bundle id is in the path.
  func judgeBroadcast(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, of bundle: Range<Int>,
    _ grant: Grant
  ) throws(Refusal) {
    let directory = context.trust.directory
    let asked = try BroadcastAdmission.examine(
      bundle: bundle, content.fields, grant: grant, connection: sender, directory: directory)
    let register = context.shared.channels
    let entry = asked.channel.flatMap {
      register.entry($0, of: asked.app, in: connection.listener.environment)
    }
    let end = try BroadcastAdmission.storedUntil(
      asked, on: entry?.channel, nowSeconds: context.wallSeconds)
    try BroadcastAdmission.examine(body: request.bodyBytes, byteCount: request.bodyByteCount)
    guard let entry else { return }
    publish(
      request,
      BroadcastDraft(
        id: context.ids.next(), acceptedMilliseconds: context.wallMilliseconds,
        expirationSeconds: end, priority: asked.priority, payload: request.bodyBytes.copied()),
      on: entry)
  }

  private func publish(
    _ request: HTTP2Request, _ draft: BroadcastDraft, on entry: ChannelRegister.Entry
  ) {
    let (loop, waiting) = (context.loop, WaitingRequest(provider: self, request: request))
    context.shared.channels.publish(draft, on: entry) { error in
      loop.perform { waiting.provider.published(waiting.request, draft.id, error) }
    }
  }

  private func published(_ request: HTTP2Request, _ id: NotificationID, _ error: StoreError?) {
    guard let error else { return answerBroadcast(request, unique: id) }
    failChannel(request, error)
  }
}
