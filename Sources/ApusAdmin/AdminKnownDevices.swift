import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
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

  private static let idForm = "16 hexadecimal digits"

  // MARK: Requests

  func list() throws(AdminProblem) -> WebResponse {
    let limit = Int(try input.integer("limit", 1...Int64(Limits.adminPageLines), default: 100))
    let after = try input.value("after", Self.idForm) { DeviceID(text: $0) }
    let query = Query(try input.text("query") ?? "")
    try input.requireAllUsed()
    let (found, next) = try page(limit, after, query)
    return WebResponse(
      json: .fields([
        "devices": .array(try json(found)), "next": next.map { .string($0.text) },
      ]))
  }

  func one() throws(AdminProblem) -> WebResponse {
    let device = try input.parameter("device", { DeviceID(text: $0) }, Self.idForm)
    try input.requireAllUsed()
    var known = Known(device: device)
    try scan(from: Self.start(device)) { id, environment, record in
      guard id == device else { return false }
      known.records.append((environment, record))
      return true
    }
    guard !known.records.isEmpty, let json = try json([known]).first else {
      throw AdminProblem(.notFound, "the device \(device.text) has never connected")
    }
    return WebResponse(json: json)
  }

  // MARK: The store

  /// The text to search for.
  private struct Query {
    var text: String
    /// Whether the text is the beginning of a device id: 4 to 16 hexadecimal digits.
    var isID: Bool

    init(_ text: String) {
      self.text = text.lowercased()
      isID = 4...16 ~= text.utf8.count && text.utf8.allSatisfy { hexValue($0) != nil }
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

  /// The matching devices of one page, and the device after which the next page begins; nil at the end.
  private func page(
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
      try view.store.scan(.devices, prefix: Span(), from: start.span) { key, value in
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
      try view.store.scanMailbox(of: devices) { index, key, _ in
        guard let place = try? MailboxKey(decoding: key) else { return }
        counts[DeviceKey(id: devices[index], environment: place.environment), default: 0] += 1
      }
    } catch {
      throw AdminProblem(.unavailable, "the store cannot be read: \(error)")
    }
    return counts
  }

  // MARK: The response

  private func json(_ devices: [Known]) throws(AdminProblem) -> [JSONValue] {
    let ids = devices.map(\.device)
    let (stored, seen, trust) = (try storedCounts(ids), view.service.sightings(of: ids), view.trust)
    return devices.map { device in
      let keys = device.records.map { DeviceKey(id: device.device, environment: $0.environment) }
      let retired = trust.directory.retiredMilliseconds(of: device.device)
      return .fields([
        "device": .string(device.device.text),
        "connected": .bool(keys.contains { seen[$0]?.session != nil }),
        "retired": retired.map { .string(Log.timestamp($0)) },
        "stored_notifications": .number(keys.reduce(0) { $0 + (stored[$1] ?? 0) }),
        "last_seen": Self.time(keys.compactMap { seen[$0]?.lastSeenMilliseconds }.max()),
        "environments": .array(
          zip(keys, device.records).map { key, known in
            environment(key, known.record, stored[key] ?? 0, seen[key], trust)
          }),
      ])
    }
  }

  private func environment(
    _ key: DeviceKey, _ record: DeviceRecord, _ stored: Int, _ seen: DeviceSighting?, _ trust: Trust
  ) -> JSONValue {
    let session = seen?.session
    let topics = record.topics.map { topic in
      JSONValue.fields([
        "topic": .string(view.text(topic.topic, trust)), "list": .string(topic.state.name),
        "since": .string(Log.timestamp(topic.stateSinceMilliseconds)),
        "generation": topic.generation == 0 ? nil : .number(topic.generation),
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
