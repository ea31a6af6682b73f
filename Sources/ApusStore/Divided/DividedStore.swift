package import ApusModel

/// Reads the tables of all parts of a cluster's devices as those of one service.
///
/// What is about one device is a row of its part. What exists once, such as channels and what goes upstream, is read
/// from part 0 alone. What workers write about themselves (lines of the ledger, counters) has their numbers in its
/// keys: here, worker w of part p has the number 1,024 p + w.
package final class DividedStore: StoreFollower {
  private let parts: [any StoreReader]

  private static let workersPerPart = 1024
  private static let relay = Int(LedgerKey.relay)

  /// - Parameter parts: Those of part 0, part 1 and so on.
  package init(_ parts: [any StoreReader]) { self.parts = parts }

  /// Whether a worker's number is that of one of part 0, or the relay's.
  package static func isOfMain(worker: UInt16) -> Bool {
    worker < workersPerPart || worker == LedgerKey.relay
  }

  package func catchUp() throws(StoreError) {
    for part in parts {
      if let follower = part as? any StoreFollower { try follower.catchUp() }
    }
  }

  /// Where rows are.
  private enum Place {
    case main
    case anywhere
    /// In the part of the worker whose number begins at that byte of the key.
    case ofWorkers(Int)
  }

  private static func place(_ family: StoreFamily, _ key: Span<UInt8>) -> Place {
    switch family {
    case .mailbox, .devices, .feedback: .anywhere
    case .ledger: .ofWorkers(1)
    case .channels: key.begins(with: [SubscriptionRecord.kind]) ? .anywhere : .main
    case .meta:
      [CountersRecord.prefix, RejectionRecord.prefix].first { key.begins(with: $0) }
        .map { .ofWorkers($0.count) } ?? .main
    case .relay: .main
    }
  }

  package func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    switch Self.place(family, key) {
    case .main: return try parts[0].get(family, key: key, once: once)
    case .anywhere:
      for part in parts {
        if let value = try part.get(family, key: key, once: once) { return value }
      }
      return nil
    case .ofWorkers(let offset):
      guard let (part, own) = own(key, offset) else { return nil }
      return try parts[part].get(family, key: own.span, once: once)
    }
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    switch Self.place(family, prefix) {
    case .main: try parts[0].scan(family, prefix: prefix, from: start, visit)
    case .anywhere: try scanAll(family, prefix, start, visit)
    case .ofWorkers(let offset):
      if Self.worker(prefix, offset) == Self.relay {
        try parts[0].scan(family, prefix: prefix, from: start, visit)
      } else if let (part, own) = own(prefix, offset) {
        let begin = self.own(start, offset)?.key ?? own
        _ = try scan(part, family, own, from: begin, offset, visit)
      } else if prefix.count == offset {
        try scanWorkers(family, prefix, start, offset, visit)
      }
    }
  }

  package func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    for part in parts { try part.scanMailbox(of: devices, visit) }
  }

  // MARK: Rows of devices

  private func scanAll(
    _ family: StoreFamily, _ prefix: Span<UInt8>, _ start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    var runs = parts.map { RowRun($0, family, prefix: prefix.copied(), from: start.copied()) }
    while true {
      for index in runs.indices { try runs[index].fill() }
      let next = runs.indices.filter { runs[$0].first != nil }
        .min { runs[$0].isFirst(before: runs[$1]) }
      guard let next, let row = runs[next].take() else { return }
      guard visit(row.key.span, row.value.span) else { return }
    }
  }

  // MARK: Rows of workers

  private static func worker(_ key: Span<UInt8>, _ offset: Int) -> Int? {
    guard key.count >= offset + 2 else { return nil }
    return Int(key[offset]) << 8 | Int(key[offset + 1])
  }

  private static func renumber(_ key: inout [UInt8], _ offset: Int, _ worker: Int) {
    (key[offset], key[offset + 1]) = (UInt8(worker >> 8), UInt8(worker & 0xff))
  }

  /// The part that a key is in, and the key there; nil if it ends before a worker's number, or no part is that of the
  /// worker.
  private func own(_ key: Span<UInt8>, _ offset: Int) -> (part: Int, key: [UInt8])? {
    guard let worker = Self.worker(key, offset) else { return nil }
    var own = key.copied()
    if worker == Self.relay { return (0, own) }
    let (part, number) = worker.quotientAndRemainder(dividingBy: Self.workersPerPart)
    guard part < parts.count else { return nil }
    Self.renumber(&own, offset, number)
    return (part, own)
  }

  /// The rows of a part's workers, without the relay's. Returns false once `visit` has.
  private func scan(
    _ part: Int, _ family: StoreFamily, _ prefix: [UInt8], from start: [UInt8], _ offset: Int,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) -> Bool {
    var goesOn = true
    try parts[part].scan(family, prefix: prefix.span, from: start.span) { key, value in
      guard let worker = Self.worker(key, offset), worker != Self.relay else { return false }
      var shown = key.copied()
      Self.renumber(&shown, offset, part * Self.workersPerPart + worker)
      goesOn = visit(shown.span, value)
      return goesOn
    }
    return goesOn
  }

  /// The rows of all workers: those of part 0, whose numbers are the lowest, of part 1 and so on, and the relay's.
  private func scanWorkers(
    _ family: StoreFamily, _ prefix: Span<UInt8>, _ start: Span<UInt8>, _ offset: Int,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    let all = prefix.copied()
    let first = Self.worker(start, offset) ?? 0
    for part in parts.indices where first < (part + 1) * Self.workersPerPart {
      let begin = first / Self.workersPerPart == part ? own(start, offset)?.key : nil
      guard try scan(part, family, all, from: begin ?? all, offset, visit) else { return }
    }
    let relay = all + [0xff, 0xff]
    let begin = first == Self.relay ? start.copied() : relay
    try parts[0].scan(family, prefix: relay.span, from: begin.span, visit)
  }
}

extension Span<UInt8> {
  fileprivate func begins(with bytes: [UInt8]) -> Bool {
    count >= bytes.count && bytes.indices.allSatisfy { self[$0] == bytes[$0] }
  }
}

/// The rows of one part from one key on, some at a time.
private struct RowRun {
  private let reader: any StoreReader
  private let family: StoreFamily
  private let prefix: [UInt8]
  /// The key from which on rows were not read yet; nil at the end.
  private var next: [UInt8]?
  /// The last row first.
  private var rows: [(key: [UInt8], value: [UInt8])] = []

  private static let rowsAtOnce = 256

  init(_ reader: any StoreReader, _ family: StoreFamily, prefix: [UInt8], from start: [UInt8]) {
    (self.reader, self.family, self.prefix, next) = (reader, family, prefix, start)
  }

  var first: [UInt8]? { rows.last?.key }

  func isFirst(before other: RowRun) -> Bool {
    guard let first, let others = other.first else { return first != nil }
    return first.span.precedes(others.span)
  }

  mutating func fill() throws(StoreError) {
    guard rows.isEmpty, let start = next else { return }
    var found: [(key: [UInt8], value: [UInt8])] = []
    try reader.scan(family, prefix: prefix.span, from: start.span) { key, value in
      found.append((key.copied(), value.copied()))
      return found.count < Self.rowsAtOnce
    }
    next = found.count < Self.rowsAtOnce ? nil : found.last.map { $0.key + [0] }
    rows = found.reversed()
  }

  mutating func take() -> (key: [UInt8], value: [UInt8])? { rows.popLast() }
}
