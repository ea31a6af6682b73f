import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Routes for channels: what a provider does at the listener for them, without its credentials.
struct ChannelRoutes {
  let context: DevContext

  private var service: any AdministeredService { context.service }

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .listChannels: return list()
    case .addChannel: return try add(input)
    default: return try remove(input)
    }
  }

  private func list() -> WebResponse {
    let (channels, census) = (service.channels(), service.channelCensus())
    let directory = context.trust().directory
    return WebResponse { writer in
      writer.key("channels")
      writer.beginArray()
      for channel in channels {
        writer.beginObject()
        write(channel, directory, to: &writer)
        let figures = census?.channels[channel.id] ?? ChannelFigures()
        writer.integer("subscriptions", Int64(clamping: figures.subscriptions))
        writer.integer("published", Int64(clamping: figures.published))
        writer.integer("delivered", Int64(clamping: figures.delivered))
        writer.endObject()
      }
      writer.endArray()
    }
  }

  private func write(_ channel: Channel, _ directory: Directory, to writer: inout JSONWriter) {
    let topic = directory.app(channel.app)?.bundleID ?? []
    writer.text("channel", channel.id.text)
    writer.text("topic", String(decoding: topic, as: UTF8.self))
    writer.text("environment", channel.environment.name)
    writer.text("storage", channel.storage.name)
    writer.integer("createdMilliseconds", channel.createdMilliseconds)
  }

  private func add(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (topic, environment, storage) = try input.read { (reader) throws(InputFault) in
      let topic = try reader.string("topic") ?? context.facts.topics[0]
      let environment = try reader.environment() ?? .production
      let storages = ChannelStorage.allCases.map { ($0.name, $0) }
      return (topic, environment, try reader.choice("storage", storages) ?? .newest)
    }
    let directory = context.trust().directory
    let bundle = Array(topic.utf8)
    guard let app = directory.app(bundleID: bundle.span) else {
      throw DevProblem(.invalid, "the service has no app \"\(topic)\"", field: "topic")
    }
    let channel = Channel(
      id: .random(), app: app.id, environment: environment, storage: storage,
      createdMilliseconds: context.clock.nowMilliseconds)
    do throws(ChannelChangeFailure) {
      try service.create(channel)
    } catch {
      throw problem(error, channel, topic)
    }
    return WebResponse(status: 201) { write(channel, directory, to: &$0) }
  }

  private func remove(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let text = input.parameter()
    guard let channel = ChannelID(text: text).flatMap(service.channel) else {
      throw DevProblem(.notFound, "the channel \(text) does not exist")
    }
    do throws(ChannelChangeFailure) {
      try service.delete(channel)
    } catch {
      throw problem(error, channel, text)
    }
    return WebResponse { _ in }
  }

  private func problem(
    _ failure: ChannelChangeFailure, _ channel: Channel, _ subject: String
  ) -> DevProblem {
    switch failure {
    case .tooMany:
      DevProblem(
        .conflict,
        "\(subject) has \(Limits.channelsPerApp) channels in \(channel.environment.name), "
          + "and may have no more")
    case .store(let reason): DevProblem(.failed, reason)
    }
  }
}
