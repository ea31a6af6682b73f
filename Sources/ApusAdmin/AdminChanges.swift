import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Changes that the administration makes in the data directory, as the commands do, with the caller in the audit log.
///
/// All parameters are read, and unknown ones rejected, before anything is changed.
struct AdminChanges {
  let view: ServiceView
  let input: AdminInput
  private var directory: DataDirectory { view.directory }

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
  }

  /// Runs `body` and converts its errors into an ``AdminProblem``.
  func attempt<Value>(_ body: () throws -> Value) throws(AdminProblem) -> Value {
    do {
      return try body()
    } catch let problem as AdminProblem {
      throw problem
    } catch let problem as DirectoryProblem {
      throw AdminProblem(.conflict, "\(problem)")
    } catch let refusal as DevicesWithoutCertificate {
      throw AdminProblem(
        .conflict,
        "\(refusal). \(DevicesWithoutCertificate.remedy), or set \"force\": true to lock them out")
    } catch let busy as DirectoryBusy {
      throw AdminProblem(.unavailable, "\(busy)")
    } catch let fault as TrustFault {
      throw AdminProblem(.invalid, "\(fault)")
    } catch {
      view.log(.error, "administration failed", .text("reason", "\(error)"))
      throw AdminProblem(.failed, "\(error)")
    }
  }

  /// Records a change in the audit log, with its caller and origin.
  func record(_ event: AuditEvent, _ subject: String) {
    view.audit.record(
      event, actor: input.caller?.name ?? "nobody", subject: subject,
      .text("from", input.caller?.origin ?? "nowhere"))
  }

  /// Lists the sections of one kind, each as an object with its name and existing values.
  func list(
    _ kind: String, name: String, _ keys: [String], lists: Set<String> = [],
    numbers: (name: String, of: [String: UInt64])? = nil,
    more: (SectionFile.Section) -> [JSONObject.Member] = { _ in [] }
  ) throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let sections = try attempt { try directory.records().sections.filter { $0.kind == kind } }
    let values = sections.map { section in
      JSONValue.object(
        JSONObject(
          [JSONObject.Member(key: name, value: .string(section.name))]
            + keys.compactMap { key in
              guard let text = section[key] else { return nil }
              let value: JSONValue =
                lists.contains(key)
                ? .array(section.words(key).map(JSONValue.string)) : .string(text)
              return .init(key: key, value: value)
            }
            + (numbers.map { numbers in
              [.init(key: numbers.name, value: .number(numbers.of[section.name] ?? 0))]
            } ?? [])
            + more(section)))
    }
    return WebResponse(json: .fields(["\(kind)s": .array(values)]))
  }

  /// Lists the apps, each with the number of pushes to device tokens dead for more than a day.
  func listApps() throws(AdminProblem) -> WebResponse {
    let trust = view.trust
    var pushes: [String: UInt64] = [:]
    for (key, number) in view.service.deadTokenPushes().numbers {
      pushes[view.text(TopicKey(app: key.topic.app), trust), default: 0] += number
    }
    return try list(
      "app", name: "topic", ["team", "id", "retain", "broadcast"],
      numbers: ("dead_token_pushes", pushes)
    ) { section in
      guard let upstream = try? UpstreamSettings(section) else { return [] }
      return [.init(key: "upstream", value: upstream.json)]
    }
  }

  /// Throws `notFound` if the section does not exist.
  private func require(_ kind: String, _ name: String) throws(AdminProblem) {
    let records = try attempt { try directory.records() }
    guard !records.sections.contains(where: { $0.kind == kind && $0.name == name }) else { return }
    throw AdminProblem(.notFound, "the \(kind) \(name) does not exist")
  }

  // MARK: Teams and apps

  func addTeam() throws(AdminProblem) -> WebResponse {
    let name = try input.required(try input.text("name"), "name")
    let given = try input.shortID("team")
    try input.requireAllUsed()
    let id = try attempt { try directory.addTeam(given, name: name) }
    record(.teamAdded, "team \(id.text)")
    return WebResponse(
      json: .fields(["team": .string(id.text), "name": .string(name)]), status: 201)
  }

  func addApp() throws(AdminProblem) -> WebResponse {
    let topic = try input.required(
      try input.value("topic", Self.topicForm) { Self.topic($0) }, "topic")
    let team = try team()
    let retention = try retention()
    let upstream = try AdminUpstream(input).edit()?.value
    try input.requireAllUsed()
    try attempt {
      try directory.addApp(topic, team: team, retention: retention, upstream: upstream)
    }
    record(.appAdded, "app \(topic)")
    return WebResponse(
      json: .fields([
        "topic": .string(topic), "team": .string(team.text),
        "retain": retention.map { .number($0) },
        "upstream": upstream == nil ? nil : try self.upstream(topic),
      ]), status: 201)
  }

  private func retention() throws(AdminProblem) -> Int? {
    let none: Int64 = 0
    let most = Int64(Limits.retainedNotifications)
    let number = try input.integer("retain", 1...most, default: none)
    return number == none ? nil : Int(number)
  }

  func changeApp() throws(AdminProblem) -> WebResponse {
    let topic = try input.parameter("topic", { Self.topic($0) }, Self.topicForm)
    let retention = try retention()
    let broadcasts = input.has("broadcast") ? try input.bool("broadcast") : nil
    let isConfirmed = try input.bool("delete_channels")
    let upstream = try AdminUpstream(input).edit()
    try input.requireAllUsed()
    guard retention != nil || broadcasts != nil || upstream != nil else {
      throw AdminProblem(
        .invalid, "nothing to change: give \"retain\", \"broadcast\" or \"upstream\"")
    }
    guard broadcasts != false || isConfirmed else {
      throw AdminProblem(
        .invalid,
        "without broadcasts the app's channels are deleted for good: set \"delete_channels\" to confirm that"
      )
    }
    try require("app", topic)
    try attempt {
      try directory.changeApp(
        topic, retention: retention, broadcasts: broadcasts, upstream: upstream)
    }
    record(.appChanged, "app \(topic)")
    return WebResponse(
      json: .fields([
        "topic": .string(topic), "retain": retention.map { .number($0) },
        "broadcast": broadcasts.map(JSONValue.bool),
        "upstream": upstream == nil ? nil : try self.upstream(topic),
      ]))
  }

  /// The app's upstream, without secrets; null if it has none.
  private func upstream(_ topic: String) throws(AdminProblem) -> JSONValue {
    try attempt {
      let section = try directory.section("app", topic, of: directory.records())
      return try UpstreamSettings(section)?.json ?? .null
    }
  }

  func removeApp() throws(AdminProblem) -> WebResponse {
    let topic = try input.parameter("topic", { Self.topic($0) }, Self.topicForm)
    try input.requireAllUsed()
    try require("app", topic)
    try attempt { try directory.removeApp(topic) }
    record(.appRemoved, "app \(topic)")
    return WebResponse(json: .fields(["removed": .string(topic)]))
  }

  private static let topicForm = "a bundle id: ASCII letters, digits, hyphens, dots"

  private static func topic(_ text: String) -> String? {
    let isFit =
      1...Limits.topicBytes ~= text.utf8.count
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f: true
        default: false
        }
      }
    return isFit ? text : nil
  }

  /// The team in the request, or the only one.
  private func team() throws(AdminProblem) -> ShortID {
    if let given = try input.shortID("team") {
      try require("team", given.text)
      return given
    }
    let teams = try attempt { try directory.records().sections.filter { $0.kind == "team" } }
    guard teams.count == 1, let id = ShortID(teams[0].name) else {
      let names = teams.map(\.name).joined(separator: ", ")
      throw AdminProblem(.invalid, "\"team\" is missing, and there are several teams: \(names)")
    }
    return id
  }

  // MARK: Keys

  func addKey() throws(AdminProblem) -> WebResponse {
    let team = try team()
    let id = try input.shortID("key")
    let form = "production, development or both"
    let environments = try input.value("environments", form) { text -> EnvironmentSet? in
      text == "both" ? .both : Environment(name: text).map { EnvironmentSet($0) }
    }
    let scope = DataDirectory.KeyScope(
      team: team, environments: environments ?? .both,
      topics: try input.texts("topics", maximumCount: Limits.topicsPerKey),
      related: try input.shortID("related"))
    let publicPEM = try input.value("public_key", "a public key as PEM") {
      $0.utf8.count <= 4096 ? $0 : nil
    }
    try input.requireAllUsed()
    let made = try attempt { try directory.addKey(id, scope: scope, publicPEM: publicPEM) }
    record(.keyAdded, "key \(made.text)")
    let secret: String? =
      publicPEM == nil ? try attempt { try Files.readText(directory.privateKey(made)) } : nil
    return WebResponse(
      json: .fields([
        "key": .string(made.text), "team": .string(team.text),
        // The caller passes it on to the provider.
        "private_key": secret.map(JSONValue.string),
      ]), status: 201)
  }

  func revokeKey() throws(AdminProblem) -> WebResponse {
    let id = try input.parameter("key", { ShortID($0) }, "ten letters and digits")
    try input.requireAllUsed()
    try require("key", id.text)
    try attempt { try directory.revokeKey(id) }
    record(.keyRevoked, "key \(id.text)")
    return WebResponse(json: .fields(["revoked": .string(id.text)]))
  }

  // MARK: Certificates and authorities

  func revokeCertificate() throws(AdminProblem) -> WebResponse {
    let digest = try input.parameter(
      "sha256", { SHA256Digest(hex: $0) }, "the certificate's SHA-256: 64 hexadecimal digits")
    try input.requireAllUsed()
    try attempt { try directory.revokeCertificate(digest) }
    record(.certificateRevoked, "certificate \(digest.hex)")
    return WebResponse(json: .fields(["revoked": .string(digest.hex)]))
  }

  func rotate() throws(AdminProblem) -> WebResponse {
    let known = Rotation.allCases.map(\.rawValue).joined(separator: ", ")
    let what = try input.required(
      try input.value("what", "one of \(known)") { Rotation(rawValue: $0) }, "what")
    let isFinish = try input.bool("finish")
    let locksOut = try input.bool("force")
    try input.requireAllUsed()
    guard !locksOut || isFinish && what == .deviceAuthority else {
      throw AdminProblem(
        .invalid, "\"force\" applies only to \"finish\" of device-authority")
    }
    switch what {
    case .serviceAuthority: return try rotate(.service, isFinish, locksOut)
    case .deviceAuthority: return try rotate(.devices, isFinish, locksOut)
    case .server, .sealingKey:
      guard !isFinish else {
        throw AdminProblem(
          .invalid, "\"finish\" applies only to service-authority and device-authority")
      }
      if what == .server { return try rotateServer() }
      let number = try attempt { try directory.rotateSealingKey() }
      record(.sealingKeyRotated, "sealing key \(number)")
      return WebResponse(
        json: .fields(["rotated": .string(what.rawValue), "number": .number(number)]))
    }
  }

  private func rotateServer() throws(AdminProblem) -> WebResponse {
    let requests = try attempt { try directory.rotateServer(nowSeconds: view.nowSeconds) }
    guard requests.isEmpty else {
      let texts = try attempt { try requests.map { JSONValue.string(try Files.readText($0)) } }
      return WebResponse(
        json: .fields(["rotated": .string(Rotation.server.rawValue), "requests": .array(texts)]))
    }
    record(.certificateRenewed, "server")
    return WebResponse(json: .fields(["rotated": .string(Rotation.server.rawValue)]))
  }

  private func rotate(
    _ which: DataDirectory.Authority, _ isFinish: Bool, _ locksOut: Bool
  ) throws(AdminProblem) -> WebResponse {
    let now = view.nowSeconds
    guard isFinish else {
      let new = try attempt { try directory.rotateAuthority(which, nowSeconds: now) }
      let name = new.subject.commonName ?? new.serial
      record(.authorityRotated, "\(which.rawValue) authority, now \(name)")
      return WebResponse(
        json: .fields([
          "rotated": .string(which.rawValue), "name": .string(name),
          "certificate": .string(new.pem),
        ]))
    }
    let finished = try attempt {
      try directory.finishRotation(of: which, locksOut: locksOut, nowSeconds: now)
    }
    let names = finished.dropped.map { $0.subject.commonName ?? $0.serial }
    record(
      .authorityRotated,
      "\(which.rawValue) authority, dropped \(names.joined(separator: ", "))")
    return WebResponse(
      json: .fields([
        "rotated": .string(which.rawValue), "dropped": .array(names.map(JSONValue.string)),
        "locked_out": .number(finished.lockedOut.count),
      ]))
  }

  /// Lists the certificates of the service and its authorities, those that providers and devices presented, and the
  /// revoked ones.
  func listCertificates() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let now = view.nowSeconds
    func member(_ kind: String, _ name: String, _ notAfter: Int64, _ file: Certificate?)
      -> JSONValue
    {
      .fields([
        "kind": .string(kind), "name": .string(name),
        "sha256": (file?.fingerprint.hex).map(JSONValue.string),
        "serial": (file?.serial).map(JSONValue.string),
        "not_before": (file?.notBefore).map { .string(Log.timestamp($0 * 1000)) },
        "not_after": .string(Log.timestamp(notAfter * 1000)),
        "seconds_left": .number(notAfter - now),
      ])
    }
    let own = try attempt { try view.namedCertificates() }
    let revoked = try attempt {
      try directory.records().sections.filter { $0.kind == "revoked" }.map(\.name)
    }
    return WebResponse(
      json: .fields([
        "certificates": .array(
          own.map { member($0.kind.rawValue, $0.name, $0.certificate.notAfter, $0.certificate) }
            + view.expiries.shown().map { member($0.kind.rawValue, $0.name, $0.notAfter, nil) }),
        "revoked": .array(revoked.map(JSONValue.string)),
      ]))
  }
}
