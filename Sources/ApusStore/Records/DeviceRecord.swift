package import ApusModel

/// The stored record of a device in one environment.
///
/// Layout, numbers big-endian: version (1), fingerprint (32), issued (8; not in version 1), number of topics (2), then
/// for each topic: app (4), flags (1, as in `MailboxKey`), generation (2), state (1, with bit 7 for "was listed"),
/// state since (8), generation since (8).
package struct DeviceRecord: Sendable, Hashable {
  package var fingerprint: KeyFingerprint
  /// Unix seconds since when the newest certificate that the device used has been valid.
  package var issuedSeconds: Int64
  /// The topics that the device ever listed, at most `maximumTopics`.
  package var topics: [TopicRegistration]

  package static let version: UInt8 = 2
  /// Twice as many as one filter may list: a topic stays known after a filter dropped it.
  package static let maximumTopics = 2 * Limits.courierFilterTopics
  /// Bytes before the first topic.
  package static let fixedByteCount = 43
  package static let topicByteCount = 24

  package init(
    fingerprint: KeyFingerprint, issuedSeconds: Int64 = 0, topics: [TopicRegistration] = []
  ) {
    self.fingerprint = fingerprint
    self.issuedSeconds = issuedSeconds
    self.topics = topics
  }

  /// The key of a device's record: device id (8), environment (1).
  package static func key(_ device: DeviceID, _ environment: Environment) -> InlineArray<9, UInt8> {
    var bytes = InlineArray<9, UInt8>(repeating: 0)
    let id = device.storeKey
    for index in 0..<8 { bytes[index] = id[index] }
    bytes[8] = environment.rawValue
    return bytes
  }

  /// Parses a key made by `key`.
  package static func decode(
    key bytes: Span<UInt8>
  ) throws(RecordError) -> (device: DeviceID, environment: Environment) {
    var cursor = RecordCursor()
    let device = DeviceID(try cursor.integer("device", in: bytes))
    let number: UInt8 = try cursor.integer("environment", in: bytes)
    guard let environment = Environment(rawValue: number) else {
      throw .malformed(field: "environment")
    }
    try cursor.end(in: bytes)
    return (device, environment)
  }

  private static let wasListedBit: UInt8 = 0x80

  /// Overwrites `output` with the record, reusing its memory. Traps with more than `maximumTopics`.
  package func encode(into output: inout [UInt8]) {
    precondition(topics.count <= Self.maximumTopics, "too many topics for a record")
    output.removeAll(keepingCapacity: true)
    output.reserveCapacity(Self.fixedByteCount + topics.count * Self.topicByteCount)
    output.append(Self.version)
    output.append(bigEndian: fingerprint.words.0)
    output.append(bigEndian: fingerprint.words.1)
    output.append(bigEndian: fingerprint.words.2)
    output.append(bigEndian: fingerprint.words.3)
    output.append(bigEndian: UInt64(bitPattern: issuedSeconds))
    output.append(bigEndian: UInt16(topics.count))
    for topic in topics {
      output.append(bigEndian: topic.topic.app.rawValue)
      // The environment is in the record's key.
      output.append(TopicFlags.encode(topic.topic.suffix, .production))
      output.append(bigEndian: topic.generation)
      output.append(topic.state.rawValue | (topic.wasListed ? Self.wasListedBit : 0))
      output.append(bigEndian: topic.stateSinceMilliseconds)
      output.append(bigEndian: topic.generationSinceMilliseconds)
    }
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard 1...Self.version ~= version else { throw .unknownVersion(version) }
    fingerprint = KeyFingerprint(
      words: (
        try cursor.integer("fingerprint", in: bytes), try cursor.integer("fingerprint", in: bytes),
        try cursor.integer("fingerprint", in: bytes), try cursor.integer("fingerprint", in: bytes)
      ))
    issuedSeconds = version == 1 ? 0 : try cursor.integer("issued", in: bytes)
    let count: UInt16 = try cursor.integer("number of topics", in: bytes)
    guard Int(count) <= Self.maximumTopics else { throw .malformed(field: "number of topics") }
    topics = []
    topics.reserveCapacity(Int(count))
    for _ in 0..<count { topics.append(try Self.topic(at: &cursor, in: bytes)) }
    try cursor.end(in: bytes)
  }

  /// Whether a record has these topics, regardless of their times. Allocates nothing.
  package static func has(_ topics: [TopicRegistration], in bytes: Span<UInt8>) -> Bool {
    guard bytes.count == fixedByteCount + topics.count * topicByteCount, bytes[0] == version
    else { return false }
    var cursor = RecordCursor()
    guard (try? cursor.run(fixedByteCount, "fixed part", in: bytes)) != nil else { return false }
    for topic in topics {
      guard let found = try? Self.topic(at: &cursor, in: bytes), found.topic == topic.topic,
        found.generation == topic.generation, found.state == topic.state,
        found.wasListed == topic.wasListed
      else { return false }
    }
    return true
  }

  private static func topic(
    at cursor: inout RecordCursor, in bytes: Span<UInt8>
  ) throws(RecordError) -> TopicRegistration {
    let app = AppID(try cursor.integer("app", in: bytes))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    let generation: UInt16 = try cursor.integer("generation", in: bytes)
    let state: UInt8 = try cursor.integer("state", in: bytes)
    guard let value = TopicState(rawValue: state & ~wasListedBit) else {
      throw .malformed(field: "state")
    }
    return TopicRegistration(
      topic: TopicKey(app: app, suffix: flags.suffix), generation: generation, state: value,
      wasListed: state & wasListedBit != 0,
      stateSinceMilliseconds: try cursor.integer("state since", in: bytes),
      generationSinceMilliseconds: try cursor.integer("generation since", in: bytes))
  }
}

/// The SHA-256 of a device certificate's public key, which identifies the device.
package struct KeyFingerprint: Sendable, Hashable {
  /// The bytes in order, eight per word, most significant first.
  package var words: (UInt64, UInt64, UInt64, UInt64)

  package static let byteCount = 32

  package init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

  /// Takes exactly 32 bytes.
  package init?(bytes: Span<UInt8>) {
    // A device token also has 32 bytes, and the same representation.
    guard let same = DeviceToken(bytes: bytes) else { return nil }
    words = same.words
  }

  package static func == (left: KeyFingerprint, right: KeyFingerprint) -> Bool {
    left.words == right.words
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(words.0)
    hasher.combine(words.1)
    hasher.combine(words.2)
    hasher.combine(words.3)
  }
}

extension KeyFingerprint {
  /// Of a device that has not connected yet.
  package static let none = KeyFingerprint(words: (0, 0, 0, 0))

  package var bytes: [UInt8] {
    [UInt8](capacity: Self.byteCount) { output in
      for word in [words.0, words.1, words.2, words.3] {
        for shift in stride(from: 56, through: 0, by: -8) {
          output.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
        }
      }
    }
  }
}
