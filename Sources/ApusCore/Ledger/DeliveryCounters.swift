package import ApusModel

/// Counts the notifications of one worker's devices by state, topic, push type and priority.
///
/// It also counts stored notifications, to know the state after a crash: see `takeChanged`. Counting a known topic
/// allocates nothing.
package struct DeliveryCounters {
  /// Rows in the order in which their topics first occurred.
  private var rows: [Row] = []
  private var cells: [UInt64] = []
  /// Stored notifications that have not ended, by push type and priority.
  private var stored: [Int64] = []
  /// Indices of rows by a hash of their topic, with linear probing; -1 if empty. At most half full.
  private var places = [Int32](repeating: -1, count: 16)
  private var changed: [Int32] = []
  /// The topic counted last, and its row: the next one is usually the same.
  private var lastKey = UInt64.max
  private var lastRow = 0

  private struct Row {
    var key: UInt64
    var topic: TopicKey
    var environment: Environment
    var pending: Int64 = 0
    var isChanged = false
  }

  package init() {}

  /// Totals over all topics, indexed by the raw value of the state.
  package var states: [UInt64] {
    var states = [UInt64](repeating: 0, count: DeliveryState.allCases.count)
    for index in cells.indices {
      states[index % TopicCounters.cellCount / TopicCounters.stateStride] &+= cells[index]
    }
    return states
  }

  /// The total of one state over all topics.
  package subscript(state: DeliveryState) -> UInt64 {
    var total: UInt64 = 0
    var index = Int(state.rawValue) * TopicCounters.stateStride
    while index < cells.count {
      for cell in cells[index..<index + TopicCounters.stateStride] { total &+= cell }
      index += TopicCounters.cellCount
    }
    return total
  }

  /// Whether anything changed since `takeChanged`.
  package var hasChanged: Bool { !changed.isEmpty }

  /// Stored notifications of all topics that have not ended.
  package var storedCount: Int64 { stored.reduce(0, +) }

  // MARK: Counting

  /// Counts a state that a notification reached.
  package mutating func count(_ state: DeliveryState, _ facts: NotificationFacts) {
    count(state, of: facts.topic, facts.environment, facts.pushType, facts.priority)
  }

  /// The same for a notification whose facts are not available.
  mutating func count(
    _ state: DeliveryState, of topic: TopicKey, _ environment: Environment, _ pushType: PushType?,
    _ priority: Priority
  ) {
    let row = row(topic, environment)
    cells[
      row * TopicCounters.cellCount
        + TopicCounters.cell(state, pushType: pushType, priority: priority)] &+= 1
    if state == .received {
      rows[row].pending += 1
    } else if state.isTerminal {
      rows[row].pending -= 1
    }
    markChanged(row)
  }

  /// Counts a notification that was received and ended at once, in that state.
  mutating func countPassing(_ state: DeliveryState, _ facts: NotificationFacts) {
    let row = row(facts.topic, facts.environment)
    let first =
      row * TopicCounters.cellCount
      + TopicCounters.offset(pushType: facts.pushType, priority: facts.priority)
    // One uniqueness check of the array for both.
    var cells = cells.mutableSpan
    cells[first + Int(DeliveryState.received.rawValue) * TopicCounters.stateStride] &+= 1
    cells[first + Int(state.rawValue) * TopicCounters.stateStride] &+= 1
    markChanged(row)
  }

  /// Counts a notification that was stored, or removed from the store.
  package mutating func countStored(_ facts: NotificationFacts, _ change: Int64) {
    let row = row(facts.topic, facts.environment)
    stored[
      row * TopicCounters.stateStride
        + TopicCounters.offset(pushType: facts.pushType, priority: facts.priority)] += change
    markChanged(row)
  }

  mutating func apply(_ forecast: StoreForecast, sign: Int64) {
    let row = row(forecast.topic, forecast.environment)
    let offset = TopicCounters.offset(pushType: forecast.pushType, priority: forecast.priority)
    stored[row * TopicCounters.stateStride + offset] += sign * forecast.stored
    markChanged(row)
    let cell = Int(DeliveryState.replaced.rawValue) * TopicCounters.stateStride + offset
    cells[row * TopicCounters.cellCount + cell] &+= UInt64(bitPattern: sign * forecast.replaced)
  }

  @inline(__always)
  private mutating func markChanged(_ row: Int) {
    guard !rows[row].isChanged else { return }
    rows[row].isChanged = true
    changed.append(Int32(row))
  }

  // MARK: Rows

  private mutating func row(_ topic: TopicKey, _ environment: Environment) -> Int {
    let key = Self.key(topic, environment)
    if key == lastKey { return lastRow }
    let row = findRow(key, topic, environment)
    (lastKey, lastRow) = (key, row)
    return row
  }

  private mutating func findRow(
    _ key: UInt64, _ topic: TopicKey, _ environment: Environment
  ) -> Int {
    var place = Self.hash(key) & (places.count - 1)
    while places[place] >= 0 {
      let row = Int(places[place])
      if rows[row].key == key { return row }
      place = (place + 1) & (places.count - 1)
    }
    return insert(key, topic, environment)
  }

  private static func key(_ topic: TopicKey, _ environment: Environment) -> UInt64 {
    UInt64(topic.app.rawValue) << 16 | UInt64(topic.suffix.rawValue) << 8
      | UInt64(environment.rawValue)
  }

  private static func hash(_ key: UInt64) -> Int {
    Int(truncatingIfNeeded: (key &* 0x9e37_79b9_7f4a_7c15) >> 32)
  }

  private mutating func insert(
    _ key: UInt64, _ topic: TopicKey, _ environment: Environment
  ) -> Int {
    rows.append(Row(key: key, topic: topic, environment: environment))
    cells.append(contentsOf: repeatElement(0, count: TopicCounters.cellCount))
    stored.append(contentsOf: repeatElement(0, count: TopicCounters.stateStride))
    if rows.count * 2 > places.count {
      places = [Int32](repeating: -1, count: places.count * 2)
      for row in rows.indices { enter(row) }
    } else {
      enter(rows.count - 1)
    }
    return rows.count - 1
  }

  private mutating func enter(_ row: Int) {
    var place = Self.hash(rows[row].key) & (places.count - 1)
    while places[place] >= 0 { place = (place + 1) & (places.count - 1) }
    places[place] = Int32(row)
  }

  // MARK: Reading and restoring

  /// The current values of all topics.
  package func snapshot() -> [TopicCounters] { rows.indices.map(counters) }

  private func counters(_ row: Int) -> TopicCounters {
    var counters = TopicCounters(topic: rows[row].topic, environment: rows[row].environment)
    counters.pending = rows[row].pending
    let first = row * TopicCounters.cellCount
    for index in 0..<TopicCounters.cellCount { counters.cells[index] = cells[first + index] }
    return counters
  }

  /// Calls `body` with each topic that changed since the last call, with the values to write with what is stored.
  ///
  /// The values show which pending notifications are only in memory; the others are in the store, or have a trace
  /// there. See `endUnstored`.
  package mutating func takeChanged(_ body: (TopicCounters) -> Void) {
    for row in changed {
      rows[Int(row)].isChanged = false
      body(durable(Int(row)))
    }
    changed.removeAll(keepingCapacity: true)
  }

  private func durable(_ row: Int) -> TopicCounters {
    var counters = counters(row)
    counters.pending = 0
    for offset in 0..<TopicCounters.stateStride {
      let unstored = max(0, unstored(row, offset))
      counters.unstored[offset] = UInt64(unstored)
      counters.pending += stored[row * TopicCounters.stateStride + offset] + unstored
    }
    return counters
  }

  /// Notifications of that push type and priority that have not ended and are not stored.
  private func unstored(_ row: Int, _ offset: Int) -> Int64 {
    let first = row * TopicCounters.cellCount + offset
    var open: UInt64 = 0
    for state in DeliveryState.allCases {
      let number = cells[first + Int(state.rawValue) * TopicCounters.stateStride]
      if state == .received { open &+= number } else if state.isTerminal { open &-= number }
    }
    return Int64(bitPattern: open) - stored[row * TopicCounters.stateStride + offset]
  }

  /// Marks all topics as changed: what was taken was not written.
  package mutating func markAllChanged() { for row in rows.indices { markChanged(row) } }

  /// Restores values of an earlier run, from `takeChanged`. Several for one topic are added up.
  package mutating func restore(_ counters: TopicCounters) {
    let row = row(counters.topic, counters.environment)
    rows[row].pending += counters.pending
    for offset in 0..<TopicCounters.stateStride {
      // Stored is accepted minus ended, without what was only in memory.
      stored[row * TopicCounters.stateStride + offset] &+=
        counters.open(at: offset) &- Int64(bitPattern: counters.unstored[offset])
    }
    for cell in counters.cells.indices {
      cells[row * TopicCounters.cellCount + cell] &+= counters.cells[cell]
    }
  }

  /// Counts what a crashed run had only in memory as discarded. Call it after `restore`, and after `count` for the
  /// lines of that run's journals.
  ///
  /// The number follows from the others, so it includes notifications whose lines were lost.
  package mutating func endUnstored() {
    for row in rows.indices {
      for offset in 0..<TopicCounters.stateStride {
        let number = unstored(row, offset)
        guard number != 0 else { continue }
        // Fewer than none: an end in a journal, and a record of the version that counted no acceptance for it.
        let state = number > 0 ? DeliveryState.discardedNotStored : .received
        let cell = Int(state.rawValue) * TopicCounters.stateStride + offset
        cells[row * TopicCounters.cellCount + cell] &+= number.magnitude
        rows[row].pending -= number
        markChanged(row)
      }
    }
  }
}
