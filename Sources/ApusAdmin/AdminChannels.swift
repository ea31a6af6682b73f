import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Channels as the administration shows and changes them: what providers do through the channel management API, without
/// their credentials.
struct AdminChannels {
  private let view: ServiceView
  private let input: AdminInput
  private let changes: AdminChanges

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
    changes = AdminChanges(view, input)
  }

  // MARK: Showing

  /// The oldest first, in pages.
  func list() throws(AdminProblem) -> WebResponse {
    let topic = try input.text("topic")
    let environment = try input.environment()
    let after = try input.value("after", Self.idForm) { ChannelID(text: $0) }
    let limit = Int(try input.integer("limit", 1...10_000, default: 1000))
    try input.requireAllUsed()
    var channels = try channels(topic, environment)
    if let after {
      let place = channels.firstIndex { $0.id == after }.map { $0 + 1 } ?? channels.count
      channels.removeFirst(place)
    }
    let next = channels.count > limit ? channels[limit - 1] : nil
    let trust = view.trust
    let census = view.service.channelCensus()
    return WebResponse(
      json: .fields([
        "channels": .array(channels.prefix(limit).map { json($0, trust, census) }),
        "next": next.map { JSONValue.string($0.id.text) },
      ]))
  }

  private func channels(
    _ topic: String?, _ environment: Environment?
  ) throws(AdminProblem) -> [Channel] {
    if let topic { return view.service.channels(of: try view.app(topic).id, in: environment) }
    let all = view.service.channels()
    guard let environment else { return all }
    return all.filter { $0.environment == environment }
  }

  func one() throws(AdminProblem) -> WebResponse {
    let channel = try channel()
    return WebResponse(json: json(channel, view.trust, view.service.channelCensus()))
  }

  private func json(
    _ channel: Channel, _ trust: Trust, _ census: ChannelCensus?
  ) -> JSONValue {
    let figures = census.map { $0.channels[channel.id] ?? ChannelFigures() }
    func number(_ value: UInt64?) -> JSONValue? {
      value.map { .integer(Int64(clamping: $0)) }
    }
    return .fields([
      "channel": .string(channel.id.text),
      "topic": .string(view.text(TopicKey(app: channel.app), trust)),
      "environment": .string(channel.environment.name),
      "storage": .string(channel.storage.name),
      "created": .string(Log.timestamp(channel.createdMilliseconds)),
      "published": number(figures?.published),
      "delivered": number(figures?.delivered),
      "subscriptions": number(figures?.subscriptions),
    ])
  }

  // MARK: Changes

  func create() throws(AdminProblem) -> WebResponse {
    let topic = try input.required(try input.text("topic"), "topic")
    let environment = try input.environment() ?? .production
    let storage = try input.value("storage", "newest or none") { ChannelStorage(name: $0) }
    try input.requireAllUsed()
    let app = try view.app(topic)
    guard app.broadcasts else {
      throw AdminProblem(
        .conflict,
        "broadcasts are off for the app \(topic): switch them on with "
          + "`apus app --change \(topic) --broadcast on`")
    }
    let channel = Channel(
      id: .random(), app: app.id, environment: environment, storage: storage ?? .newest,
      createdMilliseconds: EventLoop.wallClockMilliseconds())
    do throws(ChannelChangeFailure) {
      try view.service.create(channel)
    } catch {
      throw problem(error, channel, topic)
    }
    changes.record(.channelCreated, subject(channel, topic))
    return WebResponse(json: json(channel, view.trust, nil), status: 201)
  }

  func delete() throws(AdminProblem) -> WebResponse {
    let channel = try channel()
    let topic = view.text(TopicKey(app: channel.app), view.trust)
    do throws(ChannelChangeFailure) {
      try view.service.delete(channel)
    } catch {
      throw problem(error, channel, topic)
    }
    changes.record(.channelDeleted, subject(channel, topic))
    return WebResponse(json: .fields(["deleted": .string(channel.id.text)]))
  }

  private func problem(
    _ failure: ChannelChangeFailure, _ channel: Channel, _ topic: String
  ) -> AdminProblem {
    switch failure {
    case .tooMany:
      AdminProblem(
        .conflict,
        "the app \(topic) has \(Limits.channelsPerApp) channels in \(channel.environment.name), "
          + "and may have no more")
    case .store(let reason): AdminProblem(.unavailable, reason)
    }
  }

  private func subject(_ channel: Channel, _ topic: String) -> String {
    "channel \(channel.id.text) of \(topic), \(channel.environment.name)"
  }

  // MARK: Parameters

  private static let idForm = "a channel id: base64 of 16 bytes"

  /// That of the path, which is the only parameter. Throws `notFound` if there is none.
  private func channel() throws(AdminProblem) -> Channel {
    let id = try input.parameter("channel", { ChannelID(text: $0) }, Self.idForm)
    try input.requireAllUsed()
    guard let channel = view.service.channel(id) else {
      throw AdminProblem(.notFound, "the channel \(id.text) does not exist")
    }
    return channel
  }
}
