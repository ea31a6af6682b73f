package import ApusModel

/// A notification in the spool: accepted, and not yet answered by upstream. The fields by value; device token, collapse
/// id and payload as ranges of the value that was read.
///
/// Key: 0x01 (1), app (4), environment (1), sequence (8): a scan finds an app's notifications in the order of their
/// acceptance. Value, numbers big-endian: version (1), id (16), accepted in Unix milliseconds (8), expiration in Unix
/// seconds (8, all ones if absent), priority (1, 0 if absent), push type (1, 0xff if absent), topic suffix (1),
/// provider interface (1), origin (14: worker (2, all ones if there is none), slot (4), generation (4), frame (4)),
/// device token (1 for the length, then the bytes), collapse id (likewise), payload.
package struct RelayedRecord: Sendable, Hashable {
  package struct Key: Sendable, Hashable {
    package var app: AppID
    package var environment: Environment
    package var sequence: UInt64

    package init(app: AppID, environment: Environment, sequence: UInt64) {
      self.app = app
      self.environment = environment
      self.sequence = sequence
    }
  }

  /// The frame on the binary interface that it came with, for as long as the service runs.
  package struct Origin: Sendable, Hashable {
    /// Less than 65,535.
    package var worker: UInt16
    /// Of the connection, like the next.
    package var slot: UInt32
    package var generation: UInt32
    package var sequence: UInt32

    package init(worker: UInt16, slot: UInt32, generation: UInt32, sequence: UInt32) {
      self.worker = worker
      self.slot = slot
      self.generation = generation
      self.sequence = sequence
    }
  }

  package struct Fields: Sendable, Hashable {
    package var id: NotificationID
    package var acceptedMilliseconds: Int64
    /// As its provider sent it: 0 for one attempt; nil if there was none.
    package var expirationSeconds: Int64?
    package var priority: Priority?
    package var pushType: PushType?
    /// Of its topic.
    package var suffix: TopicSuffix
    package var interface: ProviderInterface
    /// Nil if nobody can be told of a rejection.
    package var origin: Origin?

    package init(
      id: NotificationID, acceptedMilliseconds: Int64, expirationSeconds: Int64?,
      priority: Priority?, pushType: PushType?, suffix: TopicSuffix,
      interface: ProviderInterface, origin: Origin? = nil
    ) {
      self.id = id
      self.acceptedMilliseconds = acceptedMilliseconds
      self.expirationSeconds = expirationSeconds
      self.priority = priority
      self.pushType = pushType
      self.suffix = suffix
      self.interface = interface
      self.origin = origin
    }
  }

  package var fields: Fields
  /// The range of the device token in the value: 1 to `Limits.deviceTokenBytes` bytes.
  package var deviceToken: Range<Int>
  /// The range of the collapse id in the value. Empty if there is none.
  package var collapseID: Range<Int>
  /// The range of the payload in the value: at least a byte.
  package var payload: Range<Int>

  package static let version: UInt8 = 1
  private static let fixedByteCount = 53
  private static let noWorker = UInt16.max
  private static let noExpiration: Int64 = -1
  private static let noPriority: UInt8 = 0
  private static let noPushType: UInt8 = 0xff

  /// Overwrites `output` with a value, reusing its memory. `deviceToken` has 1 to `Limits.deviceTokenBytes` bytes,
  /// `collapseID` at most `Limits.collapseIDBytes`, and `payload` at least one.
  package static func encode(
    _ fields: Fields, deviceToken: Span<UInt8>, collapseID: Span<UInt8>, payload: Span<UInt8>,
    into output: inout [UInt8]
  ) {
    precondition(
      1...Limits.deviceTokenBytes ~= deviceToken.count
        && collapseID.count <= Limits.collapseIDBytes && payload.count > 0,
      "impossible lengths in a record")
    output.removeAll(keepingCapacity: true)
    let byteCount = fixedByteCount + deviceToken.count + collapseID.count + payload.count
    output.append(addingCapacity: byteCount) { record in
      record.append(version)
      record.append(bigEndian: fields.id.high)
      record.append(bigEndian: fields.id.low)
      record.append(bigEndian: fields.acceptedMilliseconds)
      record.append(bigEndian: fields.expirationSeconds ?? noExpiration)
      record.append(fields.priority?.rawValue ?? noPriority)
      record.append(fields.pushType?.rawValue ?? noPushType)
      record.append(fields.suffix.rawValue)
      record.append(fields.interface.rawValue)
      record.append(bigEndian: fields.origin?.worker ?? noWorker)
      record.append(bigEndian: fields.origin?.slot ?? 0)
      record.append(bigEndian: fields.origin?.generation ?? 0)
      record.append(bigEndian: fields.origin?.sequence ?? 0)
      record.append(UInt8(deviceToken.count))
      record.append(copying: deviceToken)
      record.append(UInt8(collapseID.count))
      record.append(copying: collapseID)
      record.append(copying: payload)
    }
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    fields = Fields(
      id: NotificationID(
        high: try cursor.integer("id", in: bytes), low: try cursor.integer("id", in: bytes)),
      acceptedMilliseconds: try Self.accepted(cursor.integer("accepted", in: bytes)),
      expirationSeconds: try Self.expiration(cursor.integer("expiration", in: bytes)),
      priority: try Self.priority(cursor.integer("priority", in: bytes)),
      pushType: try Self.pushType(cursor.integer("push type", in: bytes)),
      suffix: try Self.suffix(cursor.integer("topic suffix", in: bytes)),
      interface: try Self.interface(cursor.integer("interface", in: bytes)),
      origin: Self.origin(
        Origin(
          worker: try cursor.integer("origin", in: bytes),
          slot: try cursor.integer("origin", in: bytes),
          generation: try cursor.integer("origin", in: bytes),
          sequence: try cursor.integer("origin", in: bytes))))
    let tokenLength: UInt8 = try cursor.integer("device token", in: bytes)
    guard 1...Limits.deviceTokenBytes ~= Int(tokenLength) else {
      throw .malformed(field: "device token")
    }
    deviceToken = try cursor.run(Int(tokenLength), "device token", in: bytes)
    let collapseLength: UInt8 = try cursor.integer("collapse id", in: bytes)
    guard Int(collapseLength) <= Limits.collapseIDBytes else {
      throw .malformed(field: "collapse id")
    }
    collapseID = try cursor.run(Int(collapseLength), "collapse id", in: bytes)
    payload = cursor.position..<bytes.count
    guard !payload.isEmpty else { throw .truncated(field: "payload") }
  }

  private static func origin(_ origin: Origin) -> Origin? {
    origin.worker == noWorker ? nil : origin
  }

  private static func accepted(_ milliseconds: Int64) throws(RecordError) -> Int64 {
    guard milliseconds >= 0 else { throw .malformed(field: "accepted") }
    return milliseconds
  }

  private static func expiration(_ seconds: Int64) throws(RecordError) -> Int64? {
    guard seconds >= noExpiration else { throw .malformed(field: "expiration") }
    return seconds == noExpiration ? nil : seconds
  }

  private static func priority(_ value: UInt8) throws(RecordError) -> Priority? {
    if value == noPriority { return nil }
    guard let priority = Priority(rawValue: value) else { throw .malformed(field: "priority") }
    return priority
  }

  private static func pushType(_ code: UInt8) throws(RecordError) -> PushType? {
    if code == noPushType { return nil }
    guard let type = PushType(rawValue: code) else { throw .malformed(field: "push type") }
    return type
  }

  private static func suffix(_ code: UInt8) throws(RecordError) -> TopicSuffix {
    guard let suffix = TopicSuffix(rawValue: code) else {
      throw .malformed(field: "topic suffix")
    }
    return suffix
  }

  private static func interface(_ code: UInt8) throws(RecordError) -> ProviderInterface {
    guard let interface = ProviderInterface(rawValue: code) else {
      throw .malformed(field: "interface")
    }
    return interface
  }
}

extension RelayedRecord.Key {
  /// The common prefix of the keys of the whole spool.
  package static var prefix: InlineArray<1, UInt8> {
    InlineArray(repeating: RelayRecord.relayedKind)
  }

  /// The common prefix of the keys of one app in one environment.
  package static func prefix(
    _ app: AppID, _ environment: Environment
  ) -> InlineArray<6, UInt8> {
    var bytes = InlineArray<6, UInt8>(repeating: RelayRecord.relayedKind)
    bytes.write(bigEndian: app.rawValue, at: 1)
    bytes[5] = environment.rawValue
    return bytes
  }

  package func encoded() -> InlineArray<14, UInt8> {
    var bytes = InlineArray<14, UInt8>(repeating: RelayRecord.relayedKind)
    bytes.write(bigEndian: app.rawValue, at: 1)
    bytes[5] = environment.rawValue
    bytes.write(bigEndian: sequence, at: 6)
    return bytes
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: bytes)
    guard kind == RelayRecord.relayedKind else { throw .malformed(field: "kind") }
    app = AppID(try cursor.integer("app", in: bytes))
    guard let environment = Environment(rawValue: try cursor.integer("environment", in: bytes))
    else { throw .malformed(field: "environment") }
    self.environment = environment
    sequence = try cursor.integer("sequence", in: bytes)
    try cursor.end(in: bytes)
  }
}
