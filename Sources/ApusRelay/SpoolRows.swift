import ApusCore
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// The rows of a spool, and what is to be written of them. Confined to the spool's loop.
struct SpoolRows: ~Copyable {
  private let store: any DurableStore
  private var group: WriteGroup
  var ledger: RelayLedger
  /// What the group changes besides new rows: after a failure it is written again.
  private var endings: [Ending] = []
  /// The same of the group that is being written.
  private var sealedEndings: [Ending] = []
  /// Memory for a value.
  private var scratch: [UInt8] = []

  private enum Ending {
    case removed(UInt64, RelayTopic)
    case dead(DeadTokenRecord)
    case notDead(RelayedToken)
    case listed(DeviceToken, FeedbackTopic, deadSinceMilliseconds: Int64)
  }

  init(_ store: any DurableStore, _ ledger: RelayLedger) {
    self.store = store
    self.ledger = ledger
    group = store.makeGroup()
  }

  // MARK: Writing

  /// Whether there is nothing to write.
  var isEmpty: Bool { group.count == 0 }

  /// Adds a notification's row; returns its size in bytes.
  mutating func put(_ spooled: SpooledNotification) -> Int {
    let notification = spooled.notification
    var value: [UInt8] = []
    swap(&value, &scratch)
    defer { swap(&value, &scratch) }
    RelayedRecord.encode(
      RelayedRecord.Fields(
        id: notification.id, acceptedMilliseconds: spooled.acceptedMilliseconds,
        expirationSeconds: notification.expirationSeconds, priority: notification.priority,
        pushType: notification.pushType, suffix: notification.topic.suffix,
        interface: spooled.interface,
        origin: spooled.answer.map(RelayedRecord.Origin.init)),
      deviceToken: notification.token.span, collapseID: notification.collapseID.span,
      payload: notification.payload.span, into: &value)
    let key = Self.key(spooled.order, spooled.topic)
    group.put(.relay, key: key.span, value: value.span)
    return key.count + value.count
  }

  mutating func remove(_ order: UInt64, _ topic: RelayTopic) { add(.removed(order, topic)) }

  mutating func put(_ totals: SpoolTotals, of topic: RelayTopic) {
    let record = SpoolTotalsRecord(
      app: topic.app, environment: topic.environment, count: Int64(totals.count),
      byteCount: Int64(totals.byteCount), isInDoubt: totals.isInDoubt)
    if totals.count == 0 {
      group.delete(.relay, key: record.key.span)
    } else {
      let value = record.encoded()
      group.put(.relay, key: record.key.span, value: value.span)
    }
  }

  /// Notes a token that upstream declared dead.
  mutating func put(_ record: DeadTokenRecord) { add(.dead(record)) }

  mutating func remove(_ token: RelayedToken) { add(.notDead(token)) }

  /// Adds the token to its topic's feedback list, which has tokens of 32 bytes, as the binary interface.
  mutating func list(_ spooled: SpooledNotification, deadSinceMilliseconds since: Int64) {
    let bytes = spooled.notification.token
    guard let token = DeviceToken(bytes: bytes.span) else { return }
    let list = FeedbackTopic(
      topic: spooled.notification.topic, environment: spooled.notification.environment)
    add(.listed(token, list, deadSinceMilliseconds: max(0, since)))
  }

  private mutating func add(_ ending: Ending) {
    endings.append(ending)
    switch ending {
    case .removed(let order, let topic):
      let key = Self.key(order, topic)
      group.deleteOnly(.relay, key: key.span)
    case .dead(let record):
      let key = DeadTokenRecord.key(of: record.token)
      let value = record.encoded()
      group.put(.relay, key: key.span, value: value.span)
    case .notDead(let token):
      let key = DeadTokenRecord.key(of: token)
      group.delete(.relay, key: key.span)
    case .listed(let token, let list, let since):
      // A list that cannot be read may get a token twice, with two times.
      let previous = try? store.feedbackTime(of: token, in: list)
      group.putFeedback(
        FeedbackRow(milliseconds: since, token: token), in: list, replacing: previous ?? nil)
    }
  }

  /// Writes everything; `completion` is called on the commit thread, and `committed` has to follow.
  mutating func commit(
    nowMilliseconds now: Int64, _ completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    ledger.seal(into: &group, nowMilliseconds: now)
    sealedEndings = endings
    endings = []
    store.commit(renewing: &group, completion: completion)
  }

  /// The group was written, or not: then whatever does not concern new rows goes with the next one.
  mutating func committed(succeeded: Bool) {
    ledger.committed(succeeded: succeeded)
    if !succeeded { for ending in sealedEndings { add(ending) } }
    sealedEndings = []
  }

  // MARK: Ledger

  /// Records that a notification has reached a state.
  mutating func record(
    _ state: DeliveryState, causeCode: UInt8 = 0, _ spooled: SpooledNotification
  ) {
    ledger.record(state, causeCode: causeCode, spooled.facts)
  }

  // MARK: Reading

  /// Whether the store has or had notifications of a spool.
  static func isUsed(_ store: any DurableStore) throws(StoreError) -> Bool {
    guard try totals(store).isEmpty else { return true }
    return try store.readCounters().contains { $0.worker == LedgerKey.relay }
  }

  /// Rows of a topic in their order, of a higher one than `order`, at most `count`. A row that cannot be read is left
  /// where it is, for `apus doctor` to report.
  func read(
    _ topic: RelayTopic, after order: UInt64, count: Int
  ) throws(StoreError) -> [SpooledNotification] {
    var found: [SpooledNotification] = []
    found.reserveCapacity(count)
    let prefix = RelayedRecord.Key.prefix(topic.app, topic.environment)
    let start = Self.key(order + 1, topic)
    try store.scan(.relay, prefix: prefix.span, from: start.span) { key, value in
      guard let key = try? RelayedRecord.Key(decoding: key),
        let spooled = Self.decode(value, key, keyByteCount: start.count)
      else { return true }
      found.append(spooled)
      return found.count < count
    }
    return found
  }

  func read(_ topic: RelayTopic, _ order: UInt64) throws(StoreError) -> SpooledNotification? {
    let key = RelayedRecord.Key(
      app: topic.app, environment: topic.environment, sequence: order)
    let bytes = key.encoded()
    guard let value = try store.get(.relay, key: bytes.span) else { return nil }
    return Self.decode(value.span, key, keyByteCount: bytes.count)
  }

  func totals() throws(StoreError) -> [RelayTopic: SpoolTotals] { try Self.totals(store) }

  private static func totals(
    _ store: any DurableStore
  ) throws(StoreError) -> [RelayTopic: SpoolTotals] {
    var totals: [RelayTopic: SpoolTotals] = [:]
    let prefix = SpoolTotalsRecord.prefix
    try store.scan(.relay, prefix: prefix.span) { key, value in
      guard let record = try? SpoolTotalsRecord(key: key, value: value) else { return true }
      totals[RelayTopic(app: record.app, environment: record.environment)] = SpoolTotals(
        count: Int(record.count), byteCount: Int(record.byteCount), isInDoubt: record.isInDoubt)
      return true
    }
    return totals
  }

  /// The tokens that upstream declared dead, in no particular order.
  func deadTokens() throws(StoreError) -> [DeadTokenRecord] {
    var records: [DeadTokenRecord] = []
    let prefix = DeadTokenRecord.prefix
    try store.scan(.relay, prefix: prefix.span) { key, value in
      if let record = try? DeadTokenRecord(key: key, value: value) { records.append(record) }
      return true
    }
    return records
  }

  private static func key(_ order: UInt64, _ topic: RelayTopic) -> InlineArray<14, UInt8> {
    RelayedRecord.Key(app: topic.app, environment: topic.environment, sequence: order).encoded()
  }

  private static func decode(
    _ value: Span<UInt8>, _ key: RelayedRecord.Key, keyByteCount: Int
  ) -> SpooledNotification? {
    guard let record = try? RelayedRecord(decoding: value) else { return nil }
    let fields = record.fields
    return SpooledNotification(
      RelayedNotification(
        id: fields.id, topic: TopicKey(app: key.app, suffix: fields.suffix),
        environment: key.environment, token: value.extracting(record.deviceToken).copied(),
        pushType: fields.pushType, priority: fields.priority,
        expirationSeconds: fields.expirationSeconds,
        collapseID: value.extracting(record.collapseID).copied(),
        payload: value.extracting(record.payload).copied()),
      order: key.sequence, acceptedMilliseconds: fields.acceptedMilliseconds,
      interface: fields.interface, answer: fields.origin.map(Answer.init),
      byteCount: keyByteCount + value.count)
  }
}

extension RelayedToken {
  init(_ notification: RelayedNotification) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(5 + notification.token.count)
    let (app, environment) = (notification.topic.app, notification.environment)
    bytes.append(bigEndian: app.rawValue)
    bytes.append(environment.rawValue)
    bytes += notification.token
    self.init(app: app, environment: environment, digest: RelayDigest(sha256Of: bytes.span))
  }
}

extension RelayedRecord.Origin {
  fileprivate init(_ answer: Answer) {
    self.init(
      worker: answer.worker, slot: answer.slot, generation: answer.generation,
      sequence: answer.sequence)
  }
}

extension Answer {
  fileprivate init(_ origin: RelayedRecord.Origin) {
    self.init(
      worker: origin.worker, connection: origin.slot, generation: origin.generation,
      sequence: origin.sequence)
  }
}
