import ApusModel
import ApusStore
import Testing

@Suite("Records of the relay")
struct RelayRecordTests {
  static let key = RelayedRecord.Key(
    app: AppID(0x0a0b_0c0d), environment: .development, sequence: 0x0102_0304_0506_0708)

  static let keyBytes = hex(
    """
    01  # a notification on its way upstream
    0a 0b 0c 0d  # app
    01  # development
    01 02 03 04 05 06 07 08  # sequence
    """)

  static let fields = RelayedRecord.Fields(
    id: NotificationID(high: 0x2021_2223_2425_2627, low: 0x2829_2a2b_2c2d_2e2f),
    acceptedMilliseconds: 1_700_000_000_123, expirationSeconds: 1_700_003_600,
    priority: .powerSaving, pushType: .voip, suffix: .voip, interface: .binary,
    origin: .init(worker: 0x3031, slot: 0x3233_3435, generation: 0x3637_3839, sequence: 0x3a3b_3c3d)
  )

  static let value = hex(
    """
    01  # version
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # id
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    00 00 00 00 65 53 ff 10  # 1,700,003,600 s
    05  # priority
    09  # voip
    07  # .voip
    01  # binary interface
    30 31  # worker
    32 33 34 35  # slot
    36 37 38 39  # generation
    3a 3b 3c 3d  # frame
    03 aa bb cc  # device token
    03 61 2f 62  # collapse id "a/b"
    7b 7d  # {}
    """)

  /// Without anything that may be absent.
  static let leastValue = hex(
    """
    01  # version
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # id
    00 00 01 8b cf e5 68 7b  # 1,700,000,000,123 ms
    ff ff ff ff ff ff ff ff  # no expiration
    00  # no priority
    ff  # no push type
    00  # no suffix
    00  # HTTP/2 interface
    ff ff 00 00 00 00 00 00 00 00 00 00 00 00  # no origin
    01 aa  # device token
    00  # no collapse id
    7b  # payload
    """)

  static let token = RelayedToken(
    app: AppID(0x0a0b_0c0d), environment: .development,
    digest: RelayDigest(high: 0x1011_1213_1415_1617, low: 0x1819_1a1b_1c1d_1e1f))

  static let dead = DeadTokenRecord(
    token: token, sinceMilliseconds: 1_700_000_000_123, notedSeconds: 1_700_003_600)

  static let deadKey = hex(
    """
    02  # a dead token
    0a 0b 0c 0d  # app
    01  # development
    10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  # digest
    """)

  static let deadValue = hex(
    """
    01  # version
    00 00 01 8b cf e5 68 7b  # since 1,700,000,000,123 ms
    00 00 00 00 65 53 ff 10  # noted at 1,700,003,600 s
    """)

  static let remembered = RememberedNotification(
    place: .init(
      sender: RelayDigest(high: 0x3031_3233_3435_3637, low: 0x3839_3a3b_3c3d_3e3f),
      sequence: 0x0102_0304_0506_0708, index: 0x0000_0102),
    digest: RelayDigest(high: 0x1011_1213_1415_1617, low: 0x1819_1a1b_1c1d_1e1f),
    original: NotificationID(high: 0x2021_2223_2425_2627, low: 0x2829_2a2b_2c2d_2e2f),
    expiresSeconds: 1_700_003_600)

  static let rememberedKey = hex(
    """
    03  # a notification whose resend is expected
    30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f  # sender
    01 02 03 04 05 06 07 08  # sequence
    00 00 01 02  # index
    """)

  static let rememberedValue = hex(
    """
    01  # version
    10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  # digest
    00 00 00 00 65 53 ff 10  # expires at 1,700,003,600 s
    20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  # id of the original
    """)

  private func encoded(
    _ fields: RelayedRecord.Fields, _ token: [UInt8], _ collapseID: [UInt8], _ payload: [UInt8]
  ) -> [UInt8] {
    var output: [UInt8] = [1, 2, 3]
    RelayedRecord.encode(
      fields, deviceToken: token.span, collapseID: collapseID.span, payload: payload.span,
      into: &output)
    return output
  }

  private func changed(_ bytes: [UInt8], _ place: Int, _ byte: UInt8) -> [UInt8] {
    var bytes = bytes
    bytes[place] = byte
    return bytes
  }

  // MARK: The spool

  @Test("A notification on its way is written according to the layout, and read back")
  func relayed() throws {
    let written = encoded(
      Self.fields, [0xaa, 0xbb, 0xcc], Array("a/b".utf8), Array("{}".utf8))
    #expect(written == Self.value)
    let read = try RelayedRecord(decoding: Self.value.span)
    #expect(read.fields == Self.fields)
    #expect(Array(Self.value[read.deviceToken]) == [0xaa, 0xbb, 0xcc])
    #expect(Array(Self.value[read.collapseID]) == Array("a/b".utf8))
    #expect(Array(Self.value[read.payload]) == Array("{}".utf8))
    let key = Self.key.encoded()
    #expect(key.span.copied() == Self.keyBytes)
    #expect(try RelayedRecord.Key(decoding: Self.keyBytes.span) == Self.key)
    let prefix = RelayedRecord.Key.prefix(Self.key.app, .development)
    #expect(prefix.span.copied() == Array(Self.keyBytes[..<6]))
  }

  @Test("Without expiration, priority, push type and collapse id there are marks instead")
  func least() throws {
    let fields = RelayedRecord.Fields(
      id: Self.fields.id, acceptedMilliseconds: 1_700_000_000_123, expirationSeconds: nil,
      priority: nil, pushType: nil, suffix: .none, interface: .http2)
    #expect(encoded(fields, [0xaa], [], Array("{".utf8)) == Self.leastValue)
    let read = try RelayedRecord(decoding: Self.leastValue.span)
    #expect(read.fields == fields)
    #expect(read.collapseID.isEmpty)
    #expect(Array(Self.leastValue[read.payload]) == Array("{".utf8))
  }

  @Test("Expiration 0 is not an absent one")
  func noStorage() throws {
    var fields = Self.fields
    fields.expirationSeconds = 0
    let read = try RelayedRecord(decoding: encoded(fields, [1], [], [2]).span)
    #expect(read.fields.expirationSeconds == 0)
  }

  @Test("The largest notification fits, and needs no new memory the second time")
  func largest() throws {
    let token = [UInt8](repeating: 0x41, count: Limits.deviceTokenBytes)
    let collapse = [UInt8](repeating: 0x42, count: Limits.collapseIDBytes)
    let payload = [UInt8](repeating: 0x43, count: Limits.voipPayloadBytes)
    var output: [UInt8] = []
    var capacities: [Int] = []
    for _ in 0..<3 {
      RelayedRecord.encode(
        Self.fields, deviceToken: token.span, collapseID: collapse.span, payload: payload.span,
        into: &output)
      capacities.append(output.capacity)
    }
    #expect(capacities[1] == capacities[2])
    let read = try RelayedRecord(decoding: output.span)
    #expect(Array(output[read.deviceToken]) == token)
    #expect(Array(output[read.collapseID]) == collapse)
    #expect(Array(output[read.payload]) == payload)
  }

  @Test("A notification that ends before its payload is rejected, and every truncated key")
  func truncated() {
    for count in 0...(Self.value.count - 2) {
      #expect(throws: RecordError.self, "\(count) bytes") {
        try RelayedRecord(decoding: Array(Self.value[..<count]).span)
      }
    }
    for count in 0..<Self.keyBytes.count {
      #expect(throws: RecordError.self, "\(count) bytes") {
        try RelayedRecord.Key(decoding: Array(Self.keyBytes[..<count]).span)
      }
    }
  }

  @Test(
    "Impossible values are rejected with the name of the field",
    arguments: [
      (0, 2, .unknownVersion(2)), (17, 0x80, .malformed(field: "accepted")),
      (25, 0x80, .malformed(field: "expiration")), (33, 2, .malformed(field: "priority")),
      (34, 11, .malformed(field: "push type")), (35, 9, .malformed(field: "topic suffix")),
      (36, 2, .malformed(field: "interface")), (51, 0, .malformed(field: "device token")),
      (51, 101, .malformed(field: "device token")), (55, 65, .malformed(field: "collapse id")),
      (55, 6, .truncated(field: "collapse id")),
    ] as [(Int, UInt8, RecordError)])
  func impossible(place: Int, byte: UInt8, error: RecordError) {
    let value = changed(Self.value, place, byte)
    #expect(throws: error) { try RelayedRecord(decoding: value.span) }
  }

  @Test("Keys of other kinds, environments and lengths are rejected")
  func otherKeys() {
    for key in [
      changed(Self.keyBytes, 0, 2), changed(Self.keyBytes, 5, 2), Self.keyBytes + [0],
    ] {
      #expect(throws: RecordError.self) { try RelayedRecord.Key(decoding: key.span) }
    }
  }

  @Test(
    "A scan finds an app's notifications in the order of their acceptance",
    arguments: Engine.allCases)
  func order(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let sequences: [UInt64] = [1, 2, 255, 256, 65_536, 1 << 32, .max]
    _ = await commit(store) { group in
      for sequence in sequences.reversed() {
        for (app, environment) in [(7, .production), (7, .development), (8, .production)]
          as [(UInt32, Environment)]
        {
          let key = RelayedRecord.Key(
            app: AppID(app), environment: environment, sequence: sequence)
          let bytes = key.encoded()
          group.put(.relay, key: bytes.span, value: Self.value.span)
        }
      }
    }
    let prefix = RelayedRecord.Key.prefix(AppID(7), .production)
    let rows = try store.rows(.relay, prefix: prefix.span.copied())
    let expected = sequences.map { sequence in
      RelayedRecord.Key(app: AppID(7), environment: .production, sequence: sequence)
        .encoded().span.copied()
    }
    #expect(rows.map { $0[0] } == expected)
    store.close()
  }

  // MARK: Dead tokens

  @Test("A dead token is written according to the layout, and read back")
  func deadToken() throws {
    let (key, value) = (DeadTokenRecord.key(of: Self.token), Self.dead.encoded())
    #expect(key.span.copied() == Self.deadKey)
    #expect(value.span.copied() == Self.deadValue)
    #expect(
      try DeadTokenRecord(key: Self.deadKey.span, value: Self.deadValue.span) == Self.dead)
  }

  @Test("Malformed rows of dead tokens are rejected")
  func malformedDeadTokens() {
    let (key, value) = (Self.deadKey, Self.deadValue)
    for count in 0..<value.count {
      #expect(throws: RecordError.self) {
        try DeadTokenRecord(key: key.span, value: Array(value[..<count]).span)
      }
    }
    for count in 0..<key.count {
      #expect(throws: RecordError.self) {
        try DeadTokenRecord(key: Array(key[..<count]).span, value: value.span)
      }
    }
    for value in [
      changed(value, 0, 2), changed(value, 1, 0x80), changed(value, 9, 0x80), value + [0],
    ] {
      #expect(throws: RecordError.self) {
        try DeadTokenRecord(key: key.span, value: value.span)
      }
    }
    for key in [changed(key, 0, 1), changed(key, 5, 2), key + [0]] {
      #expect(throws: RecordError.self) {
        try DeadTokenRecord(key: key.span, value: value.span)
      }
    }
  }

  // MARK: Totals

  private static let totals = SpoolTotalsRecord(
    app: AppID(0x0a0b_0c0d), environment: .development, count: 0x0102, byteCount: 0x0304_0506,
    isInDoubt: true)
  private static let totalsKey = hex(
    """
    04  # totals
    0a 0b 0c 0d  # app
    01  # development
    """)
  private static let totalsValue = hex(
    """
    02  # version
    00 00 00 00 00 00 01 02  # notifications
    00 00 00 00 03 04 05 06  # bytes
    01  # in doubt
    """)

  @Test("Totals are written according to the layout, and read back")
  func spoolTotals() throws {
    let (key, value) = (Self.totals.key, Self.totals.encoded())
    #expect(key.span.copied() == Self.totalsKey)
    #expect(value.span.copied() == Self.totalsValue)
    #expect(
      try SpoolTotalsRecord(key: Self.totalsKey.span, value: Self.totalsValue.span)
        == Self.totals)
  }

  @Test("Totals of version 1 do not say whether the tokens are in doubt")
  func spoolTotalsOfVersion1() throws {
    let value = [1] + Self.totalsValue.dropFirst().dropLast()
    var expected = Self.totals
    expected.isInDoubt = false
    #expect(try SpoolTotalsRecord(key: Self.totalsKey.span, value: value.span) == expected)
  }

  @Test("Malformed totals are rejected")
  func malformedTotals() {
    let (key, value) = (Self.totalsKey, Self.totalsValue)
    for value in [
      changed(value, 0, 3), changed(value, 0, 1), changed(value, 1, 0x80), changed(value, 9, 0x80),
      changed(value, 17, 2), value + [0],
      Array(value.dropLast()),
    ] {
      #expect(throws: RecordError.self) {
        try SpoolTotalsRecord(key: key.span, value: value.span)
      }
    }
    for key in [changed(key, 0, 1), changed(key, 5, 2), key + [0], Array(key.dropLast())] {
      #expect(throws: RecordError.self) {
        try SpoolTotalsRecord(key: key.span, value: value.span)
      }
    }
  }

  // MARK: Expected resends

  @Test("An expected resend is written according to the layout, and read back")
  func rememberedRow() throws {
    let key = RememberedRecord.key(of: Self.remembered.place)
    let value = RememberedRecord.value(of: Self.remembered)
    #expect(key.span.copied() == Self.rememberedKey)
    #expect(value.span.copied() == Self.rememberedValue)
    let read = try RememberedRecord.decode(
      key: Self.rememberedKey.span, value: Self.rememberedValue.span)
    #expect(read == Self.remembered)
  }

  @Test("The refused notification has index 0 and zeros for an id")
  func refused() throws {
    var row = Self.remembered
    row.place.index = 0
    row.original = nil
    let (key, value) = (RememberedRecord.key(of: row.place), RememberedRecord.value(of: row))
    #expect(key.span.copied() == Array(Self.rememberedKey[..<25]) + [0, 0, 0, 0])
    #expect(
      value.span.copied() == Array(Self.rememberedValue[..<25]) + [UInt8](repeating: 0, count: 16))
    #expect(try RememberedRecord.decode(key: key.span, value: value.span) == row)
    // Neither an id there, nor zeros elsewhere.
    #expect(throws: RecordError.malformed(field: "original")) {
      try RememberedRecord.decode(key: key.span, value: Self.rememberedValue.span)
    }
    #expect(throws: RecordError.malformed(field: "original")) {
      try RememberedRecord.decode(key: Self.rememberedKey.span, value: value.span)
    }
  }

  @Test("Malformed rows of expected resends are rejected")
  func malformedRemembered() {
    let (key, value) = (Self.rememberedKey, Self.rememberedValue)
    for count in 0..<value.count {
      #expect(throws: RecordError.self) {
        try RememberedRecord.decode(key: key.span, value: Array(value[..<count]).span)
      }
    }
    for count in 0..<key.count {
      #expect(throws: RecordError.self) {
        try RememberedRecord.decode(key: Array(key[..<count]).span, value: value.span)
      }
    }
    for value in [changed(value, 0, 2), changed(value, 17, 0x80), value + [0]] {
      #expect(throws: RecordError.self) {
        try RememberedRecord.decode(key: key.span, value: value.span)
      }
    }
    let last = Array(key[..<25]) + [0xff, 0xff, 0xff, 0xff]
    for key in [changed(key, 0, 1), key + [0], last] {
      #expect(throws: RecordError.self) {
        try RememberedRecord.decode(key: key.span, value: value.span)
      }
    }
  }

  @Test("One write deletes a sequence, and nothing beside it", arguments: Engine.allCases)
  func deletion(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    let sender = Self.remembered.place.sender
    func key(_ sequence: UInt64, _ index: UInt32) -> [UInt8] {
      RememberedRecord.key(of: .init(sender: sender, sequence: sequence, index: index))
        .span.copied()
    }
    _ = await commit(store) { group in
      for sequence in [4, 5, 6] as [UInt64] {
        for index in [0, 1, 4096] as [UInt32] {
          group.put(.relay, key(sequence, index), Self.rememberedValue)
        }
      }
    }
    _ = await commit(store) { group in
      let keys = RememberedRecord.keys(sender: sender, sequence: 5)
      group.deleteRange(.relay, from: keys.first.span, to: keys.end.span)
    }
    let rows = try store.rows(.relay, prefix: [3])
    #expect(
      rows.map { $0[0] } == [
        key(4, 0), key(4, 1), key(4, 4096), key(6, 0), key(6, 1), key(6, 4096),
      ])
    store.close()
  }

  // MARK: The examination

  @Test("The examination of a store reads rows of each kind, and rejects others")
  func examined() throws {
    try RelayRecord.examine(key: Self.keyBytes.span, value: Self.value.span)
    try RelayRecord.examine(key: Self.deadKey.span, value: Self.deadValue.span)
    try RelayRecord.examine(key: Self.rememberedKey.span, value: Self.rememberedValue.span)
    let none: [UInt8] = []
    for (key, value) in [
      (none, Self.value), (changed(Self.keyBytes, 0, 0), Self.value),
      (changed(Self.keyBytes, 0, 4), Self.value), (Self.keyBytes, Self.deadValue),
      (Self.deadKey, Self.value), (Self.rememberedKey, Self.value),
      (Self.keyBytes + [0], Self.value),
    ] {
      #expect(throws: RecordError.self) {
        try RelayRecord.examine(key: key.span, value: value.span)
      }
    }
  }
}
