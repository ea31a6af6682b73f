import ApusAdmin
import ApusDirectory
import ApusEmbedded
import ApusLoop
import ApusModel
import ApusWeb
import ApusWire

/// Routes for the console's files, the OpenAPI description, events, the clock and the status.
struct StatusRoutes {
  let context: DevContext

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .page: return try asset()
    case .asset: return try asset(input.parameter())
    case .describe:
      return WebResponse(
        200, contentType: "application/json", body: .bytes(EmbeddedFile.devAPI.bytes))
    case .health: return WebResponse(200, text: "ok\n")
    case .file: return try file(input.parameter())
    case .events: return try events(input)
    case .clock: return clock()
    case .setClock: return try setClock(input)
    default: return status()
    }
  }

  private func asset(_ name: String = "index.html") throws(DevProblem) -> WebResponse {
    guard let response = WebPage.console.answer(name) else {
      throw DevProblem(.notFound, "the file \(name) does not exist")
    }
    return response
  }

  /// A file that a provider needs, for those that do not share this machine's file system.
  private func file(_ name: String) throws(DevProblem) -> WebResponse {
    guard let file = DevFacts.CredentialFile(rawValue: name) else {
      let known = DevFacts.CredentialFile.allCases.map(\.rawValue).joined(separator: ", ")
      throw DevProblem(.notFound, "the file \(name) does not exist; there are \(known)")
    }
    do throws(FileError) {
      return WebResponse(200, text: try Files.readText(context.facts.path(file)))
    } catch {
      throw DevProblem(.failed, "\(error)")
    }
  }

  // MARK: Events

  private func events(_ input: DevInput) throws(DevProblem) -> WebResponse {
    var last: UInt64?
    if let text = input.request.values("last-event-id").first {
      guard let number = UInt64(text) else {
        throw DevProblem(.invalid, "must be the id of an event", field: "last-event-id")
      }
      last = number
    }
    let brief = try input.query("brief") ?? "false"
    guard ["true", "false"].contains(brief) else {
      throw DevProblem(.invalid, "must be true or false", field: "brief")
    }
    return WebResponse(
      200, contentType: "text/event-stream", headers: [WebField("X-Accel-Buffering", "no")],
      body: .stream(context.feed.open(after: last, isBrief: brief == "true")))
  }

  // MARK: The clock

  private func clock() -> WebResponse {
    WebResponse { write(clock: context.clock, to: &$0) }
  }

  private func write(clock: ServiceClock, to writer: inout JSONWriter) {
    writer.integer("now", clock.nowMilliseconds)
    writer.integer("offsetMilliseconds", clock.offsetMilliseconds)
  }

  /// A thousand years in milliseconds.
  private static let furthest: Int64 = 31_556_952_000_000

  private func setClock(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (set, advance, resets) = try input.read { (reader) throws(InputFault) in
      (
        try reader.integer("set", 0...Self.furthest),
        try reader.integer("advanceMilliseconds", -Self.furthest...Self.furthest),
        try reader.bool("reset") ?? false
      )
    }
    guard [set != nil, advance != nil, resets].count(where: \.self) == 1 else {
      throw DevProblem(.invalid, "must have exactly one of set, advanceMilliseconds and reset")
    }
    if let set { context.clock.set(toMilliseconds: set) }
    if let advance { context.clock.advance(byMilliseconds: advance) }
    if resets { context.clock.reset() }
    context.clockChanged()
    context.announce(.clock)
    return clock()
  }

  // MARK: Status

  private func status() -> WebResponse {
    let facts = context.facts
    let counts = context.recorder.read { state in
      [
        ("received", state.inbox.total), ("kept", UInt64(state.inbox.count)),
        ("bytes", UInt64(state.inbox.bytes)), ("accepted", state.accepted),
        ("refused", state.refused), ("faults", state.faults), ("lost", state.dropped),
        ("violations", UInt64(state.report.total)),
      ]
    }
    return WebResponse { writer in
      writer.text("version", facts.version)
      writer.text("mode", facts.isLenient ? "lenient" : "strict")
      writer.key("topics")
      writer.value(.array(facts.topics.map(JSONValue.string)))
      writer.text("team", facts.team)
      writer.text("keyID", facts.keyID)
      writer.text("deviceToken", facts.deviceToken)
      writer.key("files")
      writer.beginObject()
      writer.text("key", facts.keyFile)
      writer.text("authority", facts.authorityFile)
      writer.text("certificate", facts.certificateFile)
      writer.text("data", facts.dataDirectory)
      writer.endObject()
      writer.key("addresses")
      writeAddresses(to: &writer)
      writer.key("snippets")
      writer.beginArray()
      for snippet in Snippet.all(facts) {
        writer.beginObject()
        writer.text("name", snippet.name)
        writer.text("language", snippet.language)
        writer.text("text", snippet.text)
        writer.endObject()
      }
      writer.endArray()
      writer.key("clock")
      writer.beginObject()
      write(clock: context.clock, to: &writer)
      writer.endObject()
      writer.key("counts")
      writer.beginObject()
      for (name, count) in counts { writer.integer(name, Int64(clamping: count)) }
      writer.endObject()
      writer.key("limits")
      writer.beginObject()
      writer.integer("keep", Int64(facts.keep))
      writer.integer("keepBytes", Int64(facts.keepBytes))
      writer.endObject()
      writer.integer("startedMilliseconds", facts.startedMilliseconds)
      writer.integer(
        "uptimeMilliseconds", EventLoop.wallClockMilliseconds() - facts.startedMilliseconds)
      writer.integer("readyMilliseconds", facts.readyMilliseconds)
      writer.integer("memoryBytes", residentBytes())
    }
  }

  private func writeAddresses(to writer: inout JSONWriter) {
    writer.beginObject()
    for kind in [ListenerKind.provider, .channels, .courier, .gateway, .feedback] {
      writer.key(kind.rawValue)
      writer.beginObject()
      for environment in Environment.allCases {
        let port = context.facts.port(kind, environment)
        writer.text(environment.name, port.map { context.facts.authority(port: $0) })
      }
      writer.endObject()
    }
    writer.text("console", "\(context.facts.console)/")
    writer.endObject()
  }
}
