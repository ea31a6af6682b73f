import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust

// The channel management API: the same connections, sessions and credentials as for notifications, at a listener of its
// own. Requests are answered once their effect is durable.

extension HTTP2Provider {
  /// Whether the connection's requests are about channels.
  var managesChannels: Bool { connection.listener.kind == .channels }

  func decideOnChannels(_ request: HTTP2Request) {
    do throws(Refusal) {
      try manage(request, request.content)
    } catch {
      refuse(request, error)
    }
  }

  private func manage(
    _ request: HTTP2Request, _ content: borrowing RequestRecord
  ) throws(Refusal) {
    let directory = context.trust.directory
    let head = try ChannelAdmission.examineHead(
      content.fields, headerListTooLarge: request.headerListTooLarge)
    let grant = try authenticate(request, content, directory)
    guard !connection.isLeaving else { return session.putBack(request) }
    let app = try ChannelAdmission.examineApp(
      head, content.fields, grant: grant, connection: sender, directory: directory)
    switch head.operation {
    case .create: try create(request, app)
    case .read:
      let channel = try channel(content.fields, of: app)
      answerChannel(request, status: 200, body: ChannelBody.encode(channel.storage))
    case .delete: delete(request, try channel(content.fields, of: app))
    case .list:
      let channels = register.channels(of: app, in: environment)
      answerChannel(request, status: 200, body: ChannelBody.encode(channels.map(\.id)))
    }
  }

  private var register: ChannelRegister { context.shared.channels }
  private var environment: Environment { connection.listener.environment }

  private func channel(
    _ fields: borrowing RequestFields, of app: AppID
  ) throws(Refusal) -> Channel {
    let id = try ChannelAdmission.channelID(fields)
    guard let channel = id.flatMap({ register.channel($0, of: app, in: environment) }) else {
      throw Refusal(.channel(.unknown(app)))
    }
    return channel
  }

  private func create(_ request: HTTP2Request, _ app: AppID) throws(Refusal) {
    let storage = try ChannelBody.storage(
      decoding: request.bodyBytes, byteCount: request.bodyByteCount)
    let id = context.ids.next()
    let channel = Channel(
      id: ChannelID(high: id.high, low: id.low), app: app, environment: environment,
      storage: storage, createdMilliseconds: context.wallMilliseconds)
    let (loop, waiting) = (context.loop, WaitingRequest(provider: self, request: request))
    try register.create(channel) { error in
      loop.perform { waiting.provider.changed(waiting.request, error, status: 201, channel.id) }
    }
  }

  private func delete(_ request: HTTP2Request, _ channel: Channel) {
    let (loop, waiting) = (context.loop, WaitingRequest(provider: self, request: request))
    register.delete(channel) { error in
      loop.perform { waiting.provider.changed(waiting.request, error, status: 204, nil) }
    }
  }

  /// A change is durable, or has failed.
  private func changed(
    _ request: HTTP2Request, _ error: StoreError?, status: UInt16, _ id: ChannelID?
  ) {
    guard let error else { return answerChannel(request, status: status, id: id) }
    context.log.limited(.error, .groupRefused, atMilliseconds: context.loop.nowMilliseconds) {
      [.text("reason", "\(error)")]
    }
    rejectChannel(request, Rejection(.serviceUnavailable))
    session.release(request)
  }

  // MARK: Answers

  private func answerChannel(
    _ request: HTTP2Request, status: UInt16, id: ChannelID? = nil, body: [UInt8] = []
  ) {
    respond(request, status: status, requestID(of: request), channel: id, body: body)
    session.release(request)
  }

  /// The id under which the peer knows the request: its own, or one that it gets.
  private func requestID(of request: HTTP2Request) -> NotificationID? {
    if case .given = ChannelAdmission.requestID(of: request.fields) {
      nil
    } else {
      context.ids.next()
    }
  }

  /// Rejects a request; returns its id. The caller releases it.
  @discardableResult
  func rejectChannel(_ request: HTTP2Request, _ rejection: Rejection) -> NotificationID {
    let own = requestID(of: request)
    respond(
      request, status: rejection.reason.status, own, channel: nil,
      body: RejectionBody.bytes(of: rejection))
    return own ?? NotificationID(text: request.value(.apnsRequestID)) ?? context.ids.next()
  }

  /// - Parameter id: nil for the request's own, as the peer spelled it.
  private func respond(
    _ request: HTTP2Request, status: UInt16, _ id: NotificationID?, channel: ChannelID?,
    body: [UInt8]
  ) {
    var fields = RequestFields(byteCapacity: 128)
    if let id {
      let text = IDText(id)
      _ = fields.add(.apnsRequestID, value: text.span)
    } else {
      _ = fields.add(.apnsRequestID, value: request.value(.apnsRequestID))
    }
    if let channel {
      let text = channel.base64
      _ = fields.add(.apnsChannelID, value: text.span)
    }
    session.respond(
      streamID: request.streamID, status: status, fields: fields, body: body.span)
    connection.markDirty()
  }
}

/// A request that waits for the store. Only its worker's thread looks into it.
private struct WaitingRequest: @unchecked Sendable {
  let provider: HTTP2Provider
  let request: HTTP2Request
}
