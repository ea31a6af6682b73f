import ApusModel
import ApusServer
import ApusWeb
import ApusWire

/// Routes for virtual devices and for the texts of apps.
struct DeviceRoutes {
  let context: DevContext

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .listDevices: return try list()
    case .addDevice: return try add(input)
    case .changeDevice: return try change(input)
    case .removeDevice: return try remove(input)
    case .shown: return try shown(input)
    case .clearShown: return try clearShown(input)
    case .listStrings: return listStrings()
    case .strings: return try strings(input)
    default: return try setStrings(input)
    }
  }

  private typealias Outcome = Result<[UInt8], DevProblem>

  private func list() throws(DevProblem) -> WebResponse {
    let bytes: [UInt8] = try context.ask { devices, done in
      var writer = JSONWriter()
      writer.beginObject()
      writer.key("devices")
      writer.beginArray()
      for device in devices.all { device.write(to: &writer) }
      writer.endArray()
      writer.endObject()
      done(writer.bytes)
    }
    return Self.response(bytes)
  }

  static func response(_ bytes: [UInt8], status: Int = 200) -> WebResponse {
    WebResponse(status, contentType: "application/json", body: .bytes(bytes + [0x0a]))
  }

  private static func json(_ device: VirtualDevice) -> [UInt8] {
    var writer = JSONWriter()
    device.write(to: &writer)
    return writer.bytes
  }

  static func none(_ id: String) -> DevProblem {
    DevProblem(.notFound, "the device \"\(id)\" does not exist")
  }

  // MARK: Changes

  /// Ids are part of paths and file names.
  private static func isID(_ text: String) -> Bool {
    1...32 ~= text.utf8.count
      && text.utf8.allSatisfy { byte in
        byte &- 0x30 < 10 || (byte | 0x20) &- 0x61 < 26 || byte == UInt8(ascii: "-")
      }
  }

  private func add(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (id, change) = try input.read { (reader) throws(InputFault) in
      let id = try reader.required(reader.string("id", maximumBytes: 32), "id")
      guard Self.isID(id) else {
        throw reader.fault("id", "must be 1 to 32 letters, digits and hyphens")
      }
      return (id, try DeviceChange(&reader))
    }
    let outcome: Outcome = try context.ask { devices, done in
      do {
        let device = try devices.add(
          id: id, name: change.name ?? id,
          language: change.language ?? DeviceBook.defaultLanguage)
        try devices.change(device, change) { done(.success(Self.json(device))) }
      } catch {
        done(.failure(error as? DevProblem ?? DevProblem(.failed, "\(error)")))
      }
    }
    context.announce(.device(id))
    return Self.response(try outcome.get(), status: 201)
  }

  private func change(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let change = try input.read { (reader) throws(InputFault) in try DeviceChange(&reader) }
    let outcome: Outcome = try context.ask { devices, done in
      guard let device = devices.device(id) else { return done(.failure(Self.none(id))) }
      do throws(DevProblem) {
        try devices.change(device, change) { done(.success(Self.json(device))) }
      } catch {
        done(.failure(error))
      }
    }
    context.announce(.device(id))
    return Self.response(try outcome.get())
  }

  private func remove(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let isThere: Bool = try context.ask { devices, done in
      guard devices.device(id) != nil else { return done(false) }
      devices.remove(id) { done(true) }
    }
    guard isThere else { throw Self.none(id) }
    context.announce(.device(id))
    return WebResponse { _ in }
  }

  // MARK: What devices show

  private func shown(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    // By then, everything received before the request is in the inbox.
    let shown: [ShownNotification]? = try context.ask { devices, done in
      done(devices.device(id)?.shown)
    }
    guard let shown else { throw Self.none(id) }
    let pushes = context.recorder.read { state in
      shown.map { $0.id.flatMap(state.number(of:)).flatMap { state.inbox[$0] } }
    }
    return WebResponse { writer in
      writer.key("shown")
      writer.beginArray()
      for (entry, push) in zip(shown, pushes).reversed() {
        Self.write(entry, push, to: &writer)
      }
      writer.endArray()
    }
  }

  private static func write(
    _ entry: ShownNotification, _ push: CapturedPush?, to writer: inout JSONWriter
  ) {
    writer.beginObject()
    writer.integer("number", push.map { Int64(clamping: $0.number) })
    // As its provider spelled it.
    writer.text("apnsID", push?.exchange.apnsID ?? entry.id?.text)
    writer.text("topic", entry.topic)
    writer.text("environment", entry.environment.name)
    writer.integer("atMilliseconds", entry.milliseconds)
    writer.text("collapseID", entry.collapseID)
    writer.key("fromStorage")
    writer.bool(entry.isFromStorage)
    writer.key("rendering")
    if let rendering = entry.rendering { rendering.write(to: &writer) } else { writer.null() }
    writer.endObject()
  }

  private func clearShown(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let id = input.parameter()
    let isThere: Bool = try context.ask { devices, done in
      devices.device(id)?.clearShown()
      done(devices.device(id) != nil)
    }
    guard isThere else { throw Self.none(id) }
    context.announce(.device(id))
    return WebResponse { _ in }
  }

  // MARK: Texts

  private static let tableCapacity = 1000

  private func listStrings() -> WebResponse {
    WebResponse { writer in
      writer.key("strings")
      writer.beginArray()
      for table in context.book.tables() {
        writer.beginObject()
        writer.text("topic", table.topic)
        writer.text("language", table.language)
        writer.integer("count", Int64(table.count))
        writer.endObject()
      }
      writer.endArray()
    }
  }

  private func strings(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (topic, language) = (input.parameter(0), input.parameter(1))
    guard let table = context.book.table(topic, language) else {
      throw DevProblem(.notFound, "\(topic) has no texts in \(language)")
    }
    return WebResponse(200, text: table.text)
  }

  private func setStrings(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (topic, language) = (input.parameter(0), input.parameter(1))
    guard DeviceChange.isLanguage(language), DeviceBook.bundle(of: topic) == topic else {
      throw DevProblem(
        .invalid, "the path must have a bundle id and a language such as en, de or pt-BR")
    }
    guard
      context.book.tables().count < Self.tableCapacity
        || context.book.table(topic, language) != nil
    else { throw DevProblem(.conflict, "there are already \(Self.tableCapacity) files") }
    let table: DeviceBook.StringTable
    do throws(InputFault) {
      table = try StringsFile.read(input.request.body)
    } catch {
      throw DevProblem(error, in: input.request.body)
    }
    context.book.setStrings(table, topic: topic, language: language)
    return WebResponse { writer in
      writer.text("topic", topic)
      writer.text("language", language)
      writer.integer("count", Int64(table.strings.count))
    }
  }
}
