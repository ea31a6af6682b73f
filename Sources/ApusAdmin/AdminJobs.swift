import ApusCore
import ApusDirectory
import ApusJobs
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWeb
import ApusWire

/// Pushes to several devices, which are jobs: `POST /v1/notifications` with a selector, and `/v1/jobs`.
struct AdminJobs {
  private let view: ServiceView
  private let input: AdminInput

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
  }

  // MARK: Acceptance

  /// Whether the request names devices instead of a device token.
  var isAsked: Bool { Self.selectors.contains(where: input.has) }

  private static let selectors = ["device", "devices", "tags", "all"]

  func create() throws(AdminProblem) -> WebResponse {
    guard Self.selectors.filter(input.has).count == 1, !input.has("token") else {
      throw AdminProblem(
        .invalid, "give one of \"token\", \"device\", \"devices\", \"tags\" and \"all\"")
    }
    let selection = try selection()
    let push = try GroupPush(input)
    let idempotency = try idempotency()
    try input.requireAllUsed()
    try require(push)
    let devices = try resolve(selection)
    try view.state.takeTestPush(nowMilliseconds: Int64(EventLoop.monotonicMilliseconds()))
    let job = PushJob(
      id: randomID(), createdMilliseconds: EventLoop.wallClockMilliseconds(),
      actor: input.caller?.name ?? "nobody", selector: selection.text, push: push,
      idempotency: idempotency, deviceCount: devices.count)
    let (facts, isNew) = try submit(job, devices)
    if isNew {
      view.audit.record(
        .notificationSent, actor: job.actor, subject: push.topic ?? "no topic",
        .text("from", input.caller?.origin ?? "nowhere"),
        .text("environment", push.environment.name), .text("to", selection.text),
        .number("devices", devices.count), .text("job", facts.job.id.text))
    }
    return WebResponse(
      json: Self.json(facts), status: 202,
      headers: [WebField("Location", "/v1/jobs/\(facts.job.id.text)")])
  }

  /// Rejects what each device would be refused for.
  private func require(_ push: GroupPush) throws(AdminProblem) {
    let directory = view.trust.directory
    do throws(Refusal) {
      _ = try push.admitted(by: directory)
    } catch {
      throw AdminProblem(
        .invalid, "\(error.reason.text): \(push.text(of: error, directory))")
    }
  }

  private func idempotency() throws(AdminProblem) -> PushJob.Idempotency? {
    let given = input.request.headers.filter { $0.name == "idempotency-key" }
    guard let key = given.first?.value else { return nil }
    guard given.count == 1, 1...Limits.idempotencyKeyBytes ~= key.utf8.count else {
      throw AdminProblem(
        .malformed,
        "Idempotency-Key must be one field of 1 to \(Limits.idempotencyKeyBytes) bytes")
    }
    let body = input.request.body
    let caller = Array("\(input.caller?.name ?? "")\n\(key)".utf8)
    return PushJob.Idempotency(
      key: SHA256Digest(of: caller.span).hex,
      request: SHA256Digest(of: body.span).hex)
  }

  private func submit(
    _ job: PushJob, _ devices: [DeviceID]
  ) throws(AdminProblem) -> (facts: JobService.Facts, isNew: Bool) {
    do throws(JobService.Refusal) {
      return try view.jobs.submit(job, to: devices)
    } catch {
      switch error {
      case .tooMany(let running):
        throw AdminProblem(
          .tooManyRequests, "\(running) jobs are not over yet; wait for some, or cancel some",
          headers: [WebField("Retry-After", "10")])
      case .otherRequest(let other):
        throw AdminProblem(
          .conflict,
          "the job \(other.id.text) has the same Idempotency-Key and another content")
      case .sameRequest:
        throw AdminProblem(.conflict, "a request with the same Idempotency-Key is in progress")
      case .notStored(let reason):
        throw AdminProblem(.unavailable, "the job cannot be stored: \(reason)")
      case .stopping: throw AdminProblem(.unavailable, "the service is shutting down")
      }
    }
  }

  // MARK: Devices

  private enum Selection {
    case devices([String])
    case tags([DeviceTag])
    case all

    var text: String {
      switch self {
      case .devices(let names) where names.count <= 10:
        "device \(names.joined(separator: ", "))"
      case .devices(let names): "\(names.count) devices"
      case .tags(let tags): "tag \(tags.map(\.text).joined(separator: " and "))"
      case .all: "all devices"
      }
    }
  }

  private func selection() throws(AdminProblem) -> Selection {
    if let name = try input.text("device") { return .devices([name]) }
    let names = try input.texts("devices", maximumCount: Limits.jobDeviceNames)
    if !names.isEmpty { return .devices(names) }
    let texts = try input.texts("tags", maximumCount: Limits.tagsPerDevice)
    if !texts.isEmpty {
      var tags: [DeviceTag] = []
      for text in texts {
        guard let tag = DeviceTag(text) else {
          throw AdminProblem(.invalid, "\"\(text)\" in \"tags\" is not \(DeviceTag.form)")
        }
        tags.append(tag)
      }
      return .tags(tags)
    }
    guard try input.bool("all") else {
      throw AdminProblem(.invalid, "the request names no device")
    }
    return .all
  }

  /// The devices without retired ones, each once, sorted by id.
  private func resolve(_ selection: Selection) throws(AdminProblem) -> [DeviceID] {
    try refreshLabels()
    var devices: [DeviceID] = []
    switch selection {
    case .devices(let names):
      for name in names {
        guard let device = view.labels.read({ $0.device(called: name) }) else {
          throw AdminProblem(.notFound, "no device has the name \"\(name)\"")
        }
        devices.append(device)
      }
      devices = Set(devices).sorted { $0.rawValue < $1.rawValue }
    case .tags(let tags): devices = view.labels.read { $0.devices(with: tags) }
    case .all: devices = try knownDevices()
    }
    let directory = view.trust.directory
    devices.removeAll { directory.retiredMilliseconds(of: $0) != nil }
    guard !devices.isEmpty else {
      throw AdminProblem(.notFound, "there is no device for \(selection.text)")
    }
    guard devices.count <= Limits.jobDevices else {
      throw AdminProblem(
        .invalid, "\(devices.count) devices are more than the \(Limits.jobDevices) of one job")
    }
    return devices
  }

  private func refreshLabels() throws(AdminProblem) {
    do {
      try view.labels.refresh()
    } catch {
      throw AdminProblem(.unavailable, "\(error)")
    }
  }

  /// The devices that have ever connected.
  private func knownDevices() throws(AdminProblem) -> [DeviceID] {
    var devices: [DeviceID] = []
    do throws(StoreError) {
      try view.rows().scan(.devices, prefix: Span()) { key, _ in
        if let (device, _) = try? DeviceRecord.decode(key: key), devices.last != device {
          devices.append(device)
        }
        return true
      }
    } catch {
      throw AdminProblem(.unavailable, "the store cannot be read: \(error)")
    }
    return devices
  }

  // MARK: Jobs

  func list() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    return WebResponse(json: .fields(["jobs": .array(view.jobs.facts().map(Self.json))]))
  }

  private func id() throws(AdminProblem) -> NotificationID {
    try input.parameter(
      "job", { NotificationID(string: $0) }, "8-4-4-4-12 hexadecimal digits")
  }

  func one() throws(AdminProblem) -> WebResponse {
    let id = try id()
    try input.requireAllUsed()
    guard let facts = view.jobs.facts(of: id) else { throw Self.unknown(id) }
    return WebResponse(json: Self.json(facts))
  }

  func cancel() throws(AdminProblem) -> WebResponse {
    let id = try id()
    try input.requireAllUsed()
    guard let facts = view.jobs.facts(of: id) else { throw Self.unknown(id) }
    guard let cancelled = view.jobs.cancel(id) else {
      throw AdminProblem(.conflict, "the job is over since \(Self.end(facts) ?? "")")
    }
    view.audit.record(
      .jobCancelled, actor: input.caller?.name ?? "nobody", subject: "job \(id.text)",
      .text("from", input.caller?.origin ?? "nowhere"))
    return WebResponse(json: Self.json(cancelled))
  }

  func results() throws(AdminProblem) -> WebResponse {
    let id = try id()
    let limit = Int(try input.integer("limit", 1...Int64(Limits.adminPageLines), default: 100))
    let after = try input.integer("after", -1...Int64(UInt32.max), default: -1)
    let wanted = try input.value("outcome", Self.outcomeForm) {
      Self.outcomes.contains($0) ? $0 : nil
    }
    try input.requireAllUsed()
    let found: JobService.Results?
    do {
      found = try view.jobs.results(of: id)
    } catch {
      throw AdminProblem(.unavailable, "the results cannot be read: \(error)")
    }
    guard let found else { throw Self.unknown(id) }
    try refreshLabels()
    let labels = view.labels.index
    var (rows, next): ([JSONValue], Int64?) = ([], nil)
    for place in found.devices.indices.dropFirst(Int(after) + 1) {
      let outcome = found.outcomes[place]
      if let wanted, wanted != Self.name(outcome) { continue }
      guard rows.count < limit else { break }
      next = Int64(place)
      let device = found.devices[place]
      rows.append(row(id, device, labels.name(of: device), place, outcome))
    }
    let isEnd = next.map { $0 == Int64(found.devices.count) - 1 } ?? true
    return WebResponse(
      json: .fields([
        "results": .array(rows),
        "next": isEnd || rows.count < limit ? nil : next.map(JSONValue.integer),
      ]))
  }

  private static func name(_ outcome: GroupOutcome?) -> String { outcome?.name ?? "pending" }

  private static let outcomes = [name(nil)] + GroupOutcome.onDisk.map(\.name)
  private static let outcomeForm = "one of \(outcomes.joined(separator: ", "))"

  private func row(
    _ job: NotificationID, _ device: DeviceID, _ name: DeviceName?, _ place: Int,
    _ outcome: GroupOutcome?
  ) -> JSONValue {
    .fields([
      "device": .string(device.text),
      "name": name.map { .string($0.text) },
      "outcome": .string(Self.name(outcome)),
      "explanation": outcome?.explanation.map(JSONValue.string),
      "id": .string(PushJob.notificationID(job, place: UInt32(place)).text),
    ])
  }

  private static func unknown(_ id: NotificationID) -> AdminProblem {
    AdminProblem(.notFound, "there is no job \(id.text), or it ended long ago")
  }

  private static func end(_ facts: JobService.Facts) -> String? {
    facts.endedMilliseconds.map { Log.timestamp($0) }
  }

  private static func json(_ facts: JobService.Facts) -> JSONValue {
    let state =
      facts.endedMilliseconds != nil
      ? facts.isCancelled ? "cancelled" : "done" : facts.isWaiting ? "waiting" : "running"
    let counts = GroupOutcome.onDisk.map { outcome in
      JSONObject.Member(key: outcome.name, value: .number(facts.counts[outcome] ?? 0))
    }
    return .fields([
      "job": .string(facts.job.id.text), "state": .string(state),
      "created": .string(Log.timestamp(facts.job.createdMilliseconds)),
      "ended": end(facts).map(JSONValue.string), "actor": .string(facts.job.actor),
      "to": .string(facts.job.selector), "topic": facts.job.push.topic.map(JSONValue.string),
      "environment": .string(facts.job.push.environment.name),
      "devices": .number(facts.job.deviceCount),
      "pending": .number(facts.job.deviceCount - facts.doneCount),
      "outcomes": .object(JSONObject(counts)),
    ])
  }
}

extension GroupOutcome {
  fileprivate static var onDisk: [GroupOutcome] { allCases.filter { $0 != .unavailable } }

  /// In words; nil if there is nothing to explain.
  fileprivate var explanation: String? {
    switch self {
    case .accepted, .unavailable: nil
    case .noApp: "the device has no app with this topic in this environment"
    case .inactive: "the device is retired, or has removed the app"
    case .tooMany: "the device gets more notifications than its rate allows"
    case .refused: "the service no longer has an app with this topic"
    case .cancelled: "the job was cancelled before the device's turn"
    }
  }
}
