import ApusDevice
import ApusLoop
import ApusModel
import ApusWeb
import ApusWire

/// Routes for the Live Activities of virtual devices.
struct ActivityRoutes {
  let context: DevContext

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .activities: return try list(input)
    case .startActivity: return try start(input)
    default: return try dismissAll(input)
    }
  }

  private func list(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let bytes: [UInt8]? = try context.ask { devices, done in
      guard let device = devices.device(id) else { return done(nil) }
      var writer = JSONWriter()
      writer.beginObject()
      device.activities.write(to: &writer, at: devices.activities.nowSeconds)
      writer.endObject()
      done(writer.bytes)
    }
    guard let bytes else { throw DeviceRoutes.none(id) }
    return DeviceRoutes.response(bytes)
  }

  /// What an app does that starts one itself, without a push.
  private func start(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let wanted = try input.read { (reader) throws(InputFault) in try read(&reader) }
    let topic = wanted.bundle
    let outcome: Result<Int, DevProblem> = try context.ask { devices, done in
      guard let device = devices.device(id) else { return done(.failure(DeviceRoutes.none(id))) }
      guard device.apps[topic] == .installed else {
        return done(
          .failure(DevProblem(.invalid, "\(id) has no app \"\(topic)\"", field: "topic")))
      }
      do throws(ActivityDrop) {
        let started = try devices.activities.start(
          wanted.push, topic: "\(topic)\(TopicSuffix.liveActivity.text)",
          in: wanted.environment, on: device)
        done(.success(started ?? 0))
      } catch {
        done(.failure(DevProblem(.conflict, error.description)))
      }
    }
    let started = try outcome.get()
    context.announce(.device(id))
    return WebResponse(status: 201) { $0.integer("id", Int64(started)) }
  }

  private struct Wanted {
    var bundle: String
    var environment: Environment
    var push: ActivityPush
  }

  private func read(_ reader: inout FieldReader) throws(InputFault) -> Wanted {
    let bundle = try reader.string("topic") ?? context.facts.topics[0]
    let environment = try reader.environment() ?? .production
    return Wanted(bundle: bundle, environment: environment, push: try push(&reader))
  }

  private func push(_ reader: inout FieldReader) throws(InputFault) -> ActivityPush {
    let type = try reader.string("attributesType", maximumBytes: 256)
    let channel = try reader.string("channel", maximumBytes: 256)
    return ActivityPush(
      starting: try reader.required(type, "attributesType"),
      attributes: try content("attributes", &reader),
      source: channel.map { .channel($0) } ?? .token,
      contentState: try content("contentState", &reader),
      staleSeconds: try reader.integer("staleDate", 0...Int64.max),
      relevanceScore: try reader.number("relevance", 0...Double(Int32.max)),
      atSeconds: context.clock.nowMilliseconds / 1000)
  }

  private func content(
    _ name: String, _ reader: inout FieldReader
  ) throws(InputFault) -> JSONValue {
    guard let value = reader.value(name) else { return .object(JSONObject()) }
    guard value.object != nil else { throw reader.fault(name, "must be an object") }
    return value
  }

  private func dismissAll(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let isThere: Bool = try context.ask { devices, done in
      guard let device = devices.device(id) else { return done(false) }
      devices.activities.dismissAll(of: device)
      devices.each(device.allLinks.map { link in { link.settle($0) } }) { done(true) }
    }
    guard isThere else { throw DeviceRoutes.none(id) }
    context.announce(.device(id))
    return WebResponse { _ in }
  }
}
