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
      refuseChannel(request, error)
    }
  }

  private func manage(
    _ request: HTTP2Request, _ content: borrowing RequestRecord
  ) throws(Refusal) {
    let head = try ChannelAdmission.examineHead(
      content.fields, headerListTooLarge: request.headerListTooLarge)
    let grant = try authenticate(request, content, context.trust.directory)
    guard !connection.isLeaving else { return session.putBack(request) }
    try manage(request, content, head, grant)
  }

  /// The checks behind the credential, and the operation.
  func manage(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ head: ChannelHead,
    _ grant: Grant
  ) throws(Refusal) {
    let app = try ChannelAdmission.examineApp(
      head, content.fields, grant: grant, connection: sender,
      directory: context.trust.directory)
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
    failChannel(request, error)
  }
}
