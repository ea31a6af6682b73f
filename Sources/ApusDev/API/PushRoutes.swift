import ApusWeb
import ApusWire

/// Routes for the inbox, including those for tests.
struct PushRoutes {
  let context: DevContext

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .listPushes: return try list(input)
    case .getPush: return try get(input)
    case .clearPushes:
      context.recorder.clear()
      return WebResponse { _ in }
    case .waitForPushes: return try wait(input)
    case .countPushes: return try count(input)
    case .assertPushes: return try assert(input)
    case .clearViolations:
      context.recorder.clearReport()
      return WebResponse { _ in }
    default: return try violations(input)
    }
  }

  // MARK: Lists

  private func list(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let limit = Int(try input.number("limit", 1...1000) ?? 100)
    let before = try input.number("before", 0...UInt64(Int64.max))
    var query = PushQuery()
    query.text = Array((try input.query("q") ?? "").utf8)
    query.token = try input.query("token")
    query.topic = try input.query("topic")
    query.pushType = try input.query("type")
    query.device = try input.query("device")
    query.verdict = try input.query("verdict").map(PushQuery.Verdict.init)
    let (pushes, hasMore, kept) = context.recorder.read { state in
      let kept = state.inbox.count
      var found: [CapturedPush] = []
      for push in state.inbox.newestFirst(before: before) where query.matches(push) {
        guard found.count < limit else { return (found, true, kept) }
        found.append(push)
      }
      return (found, false, kept)
    }
    return WebResponse { writer in
      write(pushes, to: &writer)
      writer.integer("next", hasMore ? pushes.last.map { Int64(clamping: $0.number) } : nil)
      writer.integer("kept", Int64(kept))
    }
  }

  private func write(_ pushes: [CapturedPush], to writer: inout JSONWriter) {
    writer.key("pushes")
    writer.beginArray()
    for push in pushes { context.write(push, to: &writer) }
    writer.endArray()
  }

  private func get(_ input: DevInput) throws(DevProblem) -> WebResponse {
    guard let number = UInt64(input.parameter()),
      let push = context.recorder.read({ $0.inbox[number] })
    else { throw DevProblem(.notFound, "the push \(input.parameter()) does not exist") }
    var writer = JSONWriter()
    context.write(push, to: &writer)
    return WebResponse(writer)
  }

  // MARK: For tests

  /// The longest wait: ten minutes.
  private static let longestMilliseconds: Int64 = 600_000

  private func wait(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (matcher, count, timeout, after) = try input.read { (reader) throws(InputFault) in
      (
        try Self.matcher(&reader), try reader.integer("count", 1...10_000) ?? 1,
        try reader.integer("timeoutMilliseconds", 0...Self.longestMilliseconds) ?? 5000,
        try reader.integer("after", 0...Int64.max)
      )
    }
    let found = context.recorder.wait(
      matcher, count: Int(count), timeoutMilliseconds: timeout, after: after.map(UInt64.init))
    guard found.isComplete else {
      var problem = DevProblem(
        .timeout,
        "\(found.pushes.count) of \(count) matching pushes arrived within \(timeout) ms; "
          + "pushes examined: \(found.seen)")
      let pushes = found.pushes
      problem.details = { [self] writer in
        writer.integer("seen", Int64(found.seen))
        write(pushes, to: &writer)
      }
      throw problem
    }
    return WebResponse { write(found.pushes, to: &$0) }
  }

  private static func matcher(_ reader: inout FieldReader) throws(InputFault) -> Matcher {
    guard let value = reader.value("match") else { return .all }
    return try Matcher(value, at: reader.place(of: "match"))
  }

  private func count(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (matcher, after) = try input.read { (reader) throws(InputFault) in
      (try Self.matcher(&reader), try reader.integer("after", 0...Int64.max))
    }
    let found = context.recorder.count(matcher, after: after.map(UInt64.init))
    return WebResponse { writer in
      writer.integer("count", Int64(found.matching.count))
      writer.integer("seen", Int64(found.seen))
    }
  }

  private func assert(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (matcher, after, equal, least, most) = try input.read { (reader) throws(InputFault) in
      (
        try Self.matcher(&reader), try reader.integer("after", 0...Int64.max),
        try reader.integer("equal", 0...Int64.max), try reader.integer("atLeast", 0...Int64.max),
        try reader.integer("atMost", 0...Int64.max)
      )
    }
    guard equal != nil || least != nil || most != nil else {
      throw DevProblem(.invalid, "equal, atLeast or atMost is missing")
    }
    let found = context.recorder.count(matcher, after: after.map(UInt64.init))
    let count = Int64(found.matching.count)
    let holds = (equal ?? count) == count && (least ?? count) <= count && (most ?? count) >= count
    guard holds else {
      let bounds = [("equal to", equal), ("at least", least), ("at most", most)]
      let wanted = bounds.compactMap { name, bound in bound.map { "\(name) \($0)" } }
      var problem = DevProblem(
        .conflict,
        "\(count) \(count == 1 ? "push matches" : "pushes match"), expected \(wanted.joined(separator: " and "))"
      )
      let (seen, samples) = (found.seen, Array(found.matching.suffix(20)))
      problem.details = { [self] writer in
        writer.integer("count", count)
        writer.integer("seen", Int64(seen))
        write(samples, to: &writer)
      }
      throw problem
    }
    return WebResponse { $0.integer("count", count) }
  }

  // MARK: Violations

  private func violations(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let report = context.recorder.read { $0.report }
    switch try input.query("format") {
    case nil, "json":
      var writer = JSONWriter()
      report.write(to: &writer)
      return WebResponse(writer)
    case "junit":
      return WebResponse(
        200, contentType: "application/xml; charset=utf-8", text: report.junit())
    default: throw DevProblem(.invalid, "must be json or junit", field: "format")
    }
  }
}
