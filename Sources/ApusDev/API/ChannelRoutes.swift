import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusThread
import ApusTrust
import ApusWeb
import ApusWire

/// Routes for channels: what a provider does at the listener for them, without its credentials.
struct ChannelRoutes {
  let context: DevContext

  private var service: any AdministeredService { context.service }

  private func directory() throws(DevProblem) -> Directory {
    do {
      return try context.devices.settings.data.trust(generation: 1, allowsES512: false).directory
    } catch {
      throw DevProblem(.failed, "\(error)")
    }
  }

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .listChannels: return try list()
    case .addChannel: return try add(input)
    default: return try remove(input)
    }
  }

  private func list() throws(DevProblem) -> WebResponse {
    let (channels, census) = (service.channels(), service.channelCensus())
    let directory = try directory()
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
      let environments = Environment.allCases.map { ($0.name, $0) }
      let environment = try reader.choice("environment", environments) ?? .production
      let storages = ChannelStorage.allCases.map { ($0.name, $0) }
      return (topic, environment, try reader.choice("storage", storages) ?? .newest)
    }
    let directory = try directory()
    let bundle = Array(topic.utf8)
    guard let app = directory.app(bundleID: bundle.span) else {
      throw DevProblem(.invalid, "the service has no app \"\(topic)\"", field: "topic")
    }
    let channel = Channel(
      id: .random(), app: app.id, environment: environment, storage: storage,
      createdMilliseconds: context.clock.nowMilliseconds)
    let outcome = Monitor<String??>(nil)
    do throws(Refusal) {
      try service.create(channel) { error in
        let problem = error.map { "\($0)" }
        outcome.notify { $0 = .some(problem) }
      }
    } catch {
      throw DevProblem(
        .conflict,
        "\(topic) has \(Limits.channelsPerApp) channels in \(environment.name), and may have no more"
      )
    }
    if let problem = outcome.take() { throw DevProblem(.failed, problem) }
    return WebResponse(status: 201) { write(channel, directory, to: &$0) }
  }

  private func remove(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let text = input.parameter()
    guard let channel = ChannelID(text: text).flatMap(service.channel) else {
      throw DevProblem(.notFound, "the channel \(text) does not exist")
    }
    let outcome = Monitor<String??>(nil)
    service.delete(channel) { error in
      let problem = error.map { "\($0)" }
      outcome.notify { $0 = .some(problem) }
    }
    if let problem = outcome.take() { throw DevProblem(.failed, problem) }
    return WebResponse { _ in }
  }
}
