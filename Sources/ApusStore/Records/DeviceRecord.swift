package import ApusModel

/// What the service remembers of a device while it is away.
///
/// Layout, numbers big-endian: version (1), fingerprint (32), first seen (8), last seen (8), number of topics (2), then
/// for each topic: app (4), flags (1, as in `MailboxKey`), generation (2), state (1), since (8).
package struct DeviceRecord: Sendable, Hashable {
  package var fingerprint: KeyFingerprint
  /// Milliseconds since 1970.
  package var firstSeenMilliseconds: Int64
  /// Milliseconds since 1970.
  package var lastSeenMilliseconds: Int64
  /// At most `maximumTopics`.
  package var topics: [Topic]

  package static let version: UInt8 = 1
  /// As many as one filter may name.
  package static let maximumTopics = Limits.courierFilterTopics
  /// Bytes before the first topic.
  package static let fixedByteCount = 51
  package static let topicByteCount = 16

  package init(
    fingerprint: KeyFingerprint, firstSeenMilliseconds: Int64, lastSeenMilliseconds: Int64,
    topics: [Topic] = []
  ) {
    self.fingerprint = fingerprint
    self.firstSeenMilliseconds = firstSeenMilliseconds
    self.lastSeenMilliseconds = lastSeenMilliseconds
    self.topics = topics
  }

  /// A topic that the device once named.
  package struct Topic: Sendable, Hashable {
    package var key: TopicKey
    package var environment: Environment
    /// The generation that its token must carry.
    package var generation: UInt16
    package var state: TopicState
    /// Milliseconds since 1970 at which the state began: for a removed topic, the time in the provider's 410.
    package var sinceMilliseconds: Int64

    package init(
      key: TopicKey, environment: Environment, generation: UInt16, state: TopicState,
      sinceMilliseconds: Int64
    ) {
      self.key = key
      self.environment = environment
      self.generation = generation
      self.state = state
      self.sinceMilliseconds = sinceMilliseconds
    }
  }

  /// The list of the last filter that a topic stood in. The numbers are those of the lists in the courier's filter
  /// frame; 0 is in none of them.
  package enum TopicState: UInt8, Sendable, CaseIterable, Hashable {
    case removed = 0
    case enabled = 2
    case ignored = 3
    case opportunistic = 4
    case paused = 5
    case nonWaking = 6
  }

  /// Writes the record over `output`, whose room is used again. Stops the program with more than `maximumTopics`.
  package func encode(into output: inout [UInt8]) {
    precondition(topics.count <= Self.maximumTopics, "too many topics for a record")
    output.removeAll(keepingCapacity: true)
    output.reserveCapacity(Self.fixedByteCount + topics.count * Self.topicByteCount)
    output.append(Self.version)
    output.append(bigEndian: fingerprint.words.0)
    output.append(bigEndian: fingerprint.words.1)
    output.append(bigEndian: fingerprint.words.2)
    output.append(bigEndian: fingerprint.words.3)
    output.append(bigEndian: firstSeenMilliseconds)
    output.append(bigEndian: lastSeenMilliseconds)
    output.append(bigEndian: UInt16(topics.count))
    for topic in topics {
      output.append(bigEndian: topic.key.app.rawValue)
      output.append(TopicFlags.encode(topic.key.suffix, topic.environment))
      output.append(bigEndian: topic.generation)
      output.append(topic.state.rawValue)
      output.append(bigEndian: topic.sinceMilliseconds)
    }
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    fingerprint = KeyFingerprint(
      words: (
        try cursor.integer("fingerprint", in: bytes), try cursor.integer("fingerprint", in: bytes),
        try cursor.integer("fingerprint", in: bytes), try cursor.integer("fingerprint", in: bytes)
      ))
    firstSeenMilliseconds = try cursor.integer("first seen", in: bytes)
    lastSeenMilliseconds = try cursor.integer("last seen", in: bytes)
    let count: UInt16 = try cursor.integer("number of topics", in: bytes)
    guard Int(count) <= Self.maximumTopics else { throw .malformed(field: "number of topics") }
    topics = []
    topics.reserveCapacity(Int(count))
    for _ in 0..<count { topics.append(try Self.topic(at: &cursor, in: bytes)) }
    try cursor.end(in: bytes)
  }

  private static func topic(
    at cursor: inout RecordCursor, in bytes: Span<UInt8>
  ) throws(RecordError) -> Topic {
    let app = AppID(try cursor.integer("app", in: bytes))
    let flags = try TopicFlags.decode(cursor.integer("flags", in: bytes))
    let generation: UInt16 = try cursor.integer("generation", in: bytes)
    guard let state = TopicState(rawValue: try cursor.integer("state", in: bytes)) else {
      throw .malformed(field: "state")
    }
    return Topic(
      key: TopicKey(app: app, suffix: flags.suffix), environment: flags.environment,
      generation: generation, state: state,
      sinceMilliseconds: try cursor.integer("since", in: bytes))
  }
}

/// The SHA-256 of a device certificate's public key, by which a device is known again.
package struct KeyFingerprint: Sendable, Hashable {
  /// The bytes in order, eight to a word, the first byte the most significant.
  package var words: (UInt64, UInt64, UInt64, UInt64)

  package static let byteCount = 32

  package init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

  /// Takes exactly 32 bytes.
  package init?(bytes: Span<UInt8>) {
    // A device token is 32 bytes as well, and reads them the same way.
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
