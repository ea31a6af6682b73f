import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWeb
import ApusWire

/// The known devices: their records in the store, and their workers' view of them.
struct AdminKnownDevices {
  private let view: ServiceView
  private let input: AdminInput

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
  }

  /// A device's records in the store.
  private struct Known {
    var device: DeviceID
    var records: [(environment: Environment, record: DeviceRecord)] = []
  }

  // MARK: Requests

  func list() throws(AdminProblem) -> WebResponse {
    let limit = Int(try input.integer("limit", 1...Int64(Limits.adminPageLines), default: 100))
    let after = try input.value("after", "16 hexadecimal digits") { DeviceID(text: $0) }
    let query = Query(try input.text("query") ?? "")
    let tags = try input.values("tag", DeviceTag.form, maximumCount: Limits.tagsPerDevice) {
      DeviceTag($0)
    }
    try input.requireAllUsed()
    let labels = view.labels.currentIndex()
    let (found, next) =
      tags.isEmpty
      ? try page(limit, after, query, labels)
      : try page(limit, after, query, labels, among: labels.devices(with: tags))
    return WebResponse(
      json: .fields([
        "devices": .array(try json(found, labels)), "next": next.map { .string($0.text) },
      ]))
  }

  func one() throws(AdminProblem) -> WebResponse {
    let device = try input.device(view)
    try input.requireAllUsed()
    let known = try known(device)
    let labels = view.labels.currentIndex()
    guard !known.records.isEmpty || !labels.labels(of: device).isEmpty,
      let json = try json([known], labels, hasTokens: maySeeTokens).first
    else {
      throw AdminProblem(
        .notFound, "the device \(device.text) has never connected, and has no name and no tags")
    }
    return WebResponse(json: json)
  }

  /// Who may send to a device, or decides about it. A token of the administration that only reads sees no secret.
  private var maySeeTokens: Bool {
    !input.scopes.isDisjoint(with: [.send, .operate])
  }

  // MARK: The store

  /// The text to search for.
  private struct Query {
    var text: String
    /// Whether the text may be the beginning of a device id: 4 to 16 hexadecimal digits.
    var isID: Bool

    init(_ text: String) {
      self.text = text.lowercased()
      isID = 4...16 ~= text.utf8.count && text.utf8.allSatisfy { hexValue($0) != nil }
    }

    /// Whether the id, the name or a tag of the device matches.
    func matches(_ device: DeviceID, _ labels: LabelIndex) -> Bool {
      text.isEmpty || device.text.hasPrefix(text)
        || labels.labels(of: device).contains(lowercased: text)
    }

    /// The smallest id that can match.
    var first: DeviceID? {
      isID ? DeviceID(text: text + String(repeating: "0", count: 16 - text.utf8.count)) : nil
    }
  }

  private static func start(_ device: DeviceID, behind: Bool = false) -> [UInt8] {
    let key = device.storeKey
    return key.indices.map { key[$0] } + (behind ? [.max] : [])
  }

  private func known(_ device: DeviceID) throws(AdminProblem) -> Known {
    var known = Known(device: device)
    try scan(from: Self.start(device)) { id, environment, record in
      guard id == device else { return false }
      known.records.append((environment, record))
      return true
    }
    return known
  }

  /// The matching devices of one page, and the device after which the next page begins; nil at the end. Devices that
  /// have never connected are known by their labels alone.
  private func page(
    _ limit: Int, _ after: DeviceID?, _ query: Query, _ labels: LabelIndex
  ) throws(AdminProblem) -> (found: [Known], next: DeviceID?) {
    var (found, next) = try stored(limit, after, query)
    var ids = Set(found.map(\.device))
    for device in labels.devices(after: after, through: next)
    where !ids.contains(device) && query.matches(device, labels) {
      // They come in the order of their ids: one beyond the limit shows that there is another page.
      guard ids.count <= found.count + limit else { break }
      ids.insert(device)
    }
    let stored = Dictionary(uniqueKeysWithValues: found.map { ($0.device, $0) })
    let sorted = ids.sorted { $0.rawValue < $1.rawValue }
    if sorted.count > limit { next = sorted[limit - 1] }
    found = []
    for device in sorted.prefix(limit) {
      if let known = stored[device] { found.append(known) } else { found.append(try known(device)) }
    }
    return (found, next)
  }

  /// The same of devices that are given, sorted.
  private func page(
    _ limit: Int, _ after: DeviceID?, _ query: Query, _ labels: LabelIndex,
    among devices: [DeviceID]
  ) throws(AdminProblem) -> (found: [Known], next: DeviceID?) {
    let trust = view.trust
    var (found, looked): ([Known], Int) = ([], 0)
    var last: DeviceID?
    for device in devices where after.map({ device.rawValue > $0.rawValue }) ?? true {
      guard found.count < limit, looked < Limits.adminPageDevicesSearched else {
        return (found, last)
      }
      (looked, last) = (looked + 1, device)
      let known = try known(device)
      if query.matches(device, labels) || matches(known, query, trust) { found.append(known) }
    }
    return (found, nil)
  }

  /// The matching devices of one page that are in the store, and the device after which the next page begins; nil at
  /// the end.
  private func stored(
    _ limit: Int, _ after: DeviceID?, _ query: Query
  ) throws(AdminProblem) -> (found: [Known], next: DeviceID?) {
    var start = after.map { Self.start($0, behind: true) } ?? []
    if let first = query.first, after.map({ $0.rawValue < first.rawValue }) ?? true {
      start = Self.start(first)
    }
    let trust = view.trust
    var found: [Known] = []
    var current: Known?
    var last: DeviceID?
    var (looked, isCut) = (0, false)
    /// Examines the device whose records have been read; true if the page is complete.
    func isFull() -> Bool {
      guard let device = current else { return false }
      current = nil
      last = device.device
      looked += 1
      if matches(device, query, trust) { found.append(device) }
      return found.count >= limit || looked >= Limits.adminPageDevicesSearched
    }
    try scan(from: start) { id, environment, record in
      if query.isID, !id.text.hasPrefix(query.text) { return false }
      if current?.device != id {
        guard !isFull() else {
          isCut = true
          return false
        }
        current = Known(device: id)
      }
      current?.records.append((environment, record))
      return true
    }
    if !isCut { _ = isFull() }
    return (found, isCut ? last : nil)
  }

  private func matches(_ known: Known, _ query: Query, _ trust: Trust) -> Bool {
    if query.text.isEmpty || known.device.text.hasPrefix(query.text) { return true }
    return known.records.contains { _, record in
      record.topics.contains { view.text($0.topic, trust).lowercased().contains(query.text) }
    }
  }

  /// Visits the records of devices in the order of their ids. Unreadable records are skipped: the service reports them
  /// when it needs them.
  private func scan(
    from start: [UInt8], _ visit: (DeviceID, Environment, DeviceRecord) -> Bool
  ) throws(AdminProblem) {
    do throws(StoreError) {
      try view.rows().scan(.devices, prefix: Span(), from: start.span) { key, value in
        guard let (id, environment) = try? DeviceRecord.decode(key: key),
          let record = try? DeviceRecord(decoding: value)
        else { return true }
        return visit(id, environment, record)
      }
    } catch {
      throw AdminProblem(.unavailable, "the store cannot be read: \(error)")
    }
  }

  /// The number of stored notifications for each device and environment.
  private func storedCounts(_ devices: [DeviceID]) throws(AdminProblem) -> [DeviceKey: Int] {
    var counts: [DeviceKey: Int] = [:]
    do throws(StoreError) {
      try view.rows().scanMailbox(of: devices) { index, key, _ in
        guard let place = try? MailboxKey(decoding: key) else { return }
        counts[DeviceKey(id: devices[index], environment: place.environment), default: 0] += 1
      }
    } catch {
      throw AdminProblem(.unavailable, "the store cannot be read: \(error)")
    }
    return counts
  }

  // MARK: The response

  private func json(
    _ devices: [Known], _ labels: LabelIndex, hasTokens: Bool = false
  ) throws(AdminProblem) -> [JSONValue] {
    let ids = devices.map(\.device)
    let (stored, seen, trust) = (try storedCounts(ids), view.sightings(of: ids), view.trust)
    return devices.map { device in
      let keys = device.records.map { DeviceKey(id: device.device, environment: $0.environment) }
      let retired = trust.directory.retiredMilliseconds(of: device.device)
      let own = labels.labels(of: device.device)
      let sealer = hasTokens && retired == nil ? TokenSealer(trust.sealingKeys) : nil
      return .fields([
        "device": .string(device.device.text),
        "name": (own.name?.text).map(JSONValue.string), "tags": own.tagsJSON,
        "connected": .bool(keys.contains { seen[$0]?.session != nil }),
        "retired": retired.map { .string(Log.timestamp($0)) },
        "stored_notifications": .number(keys.reduce(0) { $0 + (stored[$1] ?? 0) }),
        "last_seen": Self.time(keys.compactMap { seen[$0]?.lastSeenMilliseconds }.max()),
        "environments": .array(
          zip(keys, device.records).map { key, known in
            environment(key, known.record, stored[key] ?? 0, seen[key], trust, sealer)
          }),
      ])
    }
  }

  private func environment(
    _ key: DeviceKey, _ record: DeviceRecord, _ stored: Int, _ seen: DeviceSighting?,
    _ trust: Trust,
    _ sealer: TokenSealer?
  ) -> JSONValue {
    let session = seen?.session
    let topics = record.topics.map { topic in
      JSONValue.fields([
        "topic": .string(view.text(topic.topic, trust)), "list": .string(topic.state.name),
        "since": .string(Log.timestamp(topic.stateSinceMilliseconds)),
        "generation": topic.generation == 0 ? nil : .number(topic.generation),
        // The token of an unlisted topic is dead, or will be when the grace time is over.
        "token": topic.generation == 0 || topic.state == .unlisted
          ? nil
          : (sealer?.seal(
            TokenClaims(
              device: key.id, topic: topic.topic, environment: key.environment,
              generation: topic.generation)
          ).hex).map(JSONValue.string),
      ])
    }
    let fingerprint = record.fingerprint.bytes
    return .fields([
      "environment": .string(key.environment.name), "connected": .bool(session != nil),
      "address": session?.address.map(JSONValue.string),
      "power": (session?.power.name).map(JSONValue.string),
      "in_flight": (session?.inFlight).map { .number($0) },
      "waiting": (session?.waiting).map { .number($0) }, "stored_notifications": .number(stored),
      "last_seen": Self.time(seen?.lastSeenMilliseconds),
      "key_sha256": record.fingerprint == .none
        ? nil : .string(String(decoding: Hex.encode(fingerprint.span), as: UTF8.self)),
      "topics": .array(topics),
    ])
  }

  private static func time(_ milliseconds: Int64?) -> JSONValue? {
    milliseconds.map { .string(Log.timestamp($0)) }
  }
}

extension TopicState {
  /// The value in the administration API.
  fileprivate var name: String {
    switch self {
    case .enabled: "enabled"
    case .nonWaking: "non_waking"
    case .opportunistic: "opportunistic"
    case .paused: "paused"
    case .ignored: "ignored"
    case .unlisted: "unlisted"
    }
  }
}
