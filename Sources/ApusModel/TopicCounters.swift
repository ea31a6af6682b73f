/// How often the notifications of one topic in one environment reached each state, by push type and priority.
///
/// For each topic, accepted = ended + pending: see `isBalanced`.
public struct TopicCounters: Sendable, Hashable {
  public var topic: TopicKey
  public var environment: Environment
  /// Accepted and not ended. Negative only in the part of one worker, when devices changed workers between two runs
  /// with different numbers of workers.
  public var pending: Int64
  /// One number for each state, push type and priority; see `cell`.
  public var cells: [UInt64]
  /// Pending notifications that the store does not have, by push type and priority; see `offset`. A crash ends them.
  /// Only what a worker writes to the store has these numbers; elsewhere they are 0.
  public var unstored: [UInt64]

  public init(topic: TopicKey, environment: Environment) {
    self.topic = topic
    self.environment = environment
    pending = 0
    cells = [UInt64](repeating: 0, count: Self.cellCount)
    unstored = [UInt64](repeating: 0, count: Self.stateStride)
  }

  // MARK: Layout

  // Literals, because every counted event uses them and the lists' counts would be computed each time.
  /// Push types, after a first index for no push type.
  @inlinable public static var pushTypeCount: Int { 12 }
  @inlinable public static var priorityCount: Int { 3 }
  /// Cells of one state.
  @inlinable public static var stateStride: Int { pushTypeCount * priorityCount }
  @inlinable public static var cellCount: Int { 20 * stateStride }

  /// The index among the cells of one state.
  @inlinable
  public static func offset(pushType: PushType?, priority: Priority) -> Int {
    let type = pushType.map { Int($0.rawValue) + 1 } ?? 0
    let column =
      switch priority {
      case .immediate: 0
      case .powerSaving: 1
      case .whenActive: 2
      }
    return type * priorityCount + column
  }

  @inlinable
  public static func cell(
    _ state: DeliveryState, pushType: PushType?, priority: Priority
  ) -> Int {
    Int(state.rawValue) * stateStride + offset(pushType: pushType, priority: priority)
  }

  // MARK: Reading

  public subscript(
    state: DeliveryState, pushType: PushType?, priority: Priority
  ) -> UInt64 {
    cells[Self.cell(state, pushType: pushType, priority: priority)]
  }

  public subscript(state: DeliveryState) -> UInt64 {
    let first = Int(state.rawValue) * Self.stateStride
    return cells[first..<first + Self.stateStride].reduce(0, &+)
  }

  public var accepted: UInt64 { self[.received] }

  /// Notifications in a terminal state.
  public var ended: UInt64 {
    DeliveryState.allCases.reduce(0) { $1.isTerminal ? $0 &+ self[$1] : $0 }
  }

  /// Pending notifications that the store has, or has a trace of.
  public var pendingInStore: Int64 { pending - Int64(unstoredCount) }

  /// Pending notifications that the store does not have.
  public var unstoredCount: UInt64 { unstored.reduce(0, &+) }

  /// Whether every accepted notification has ended or is pending.
  public var isBalanced: Bool { accepted == ended &+ UInt64(bitPattern: pending) }

  /// The part of one push type; nil for notifications without one.
  public func part(of pushType: PushType?) -> TopicCounters {
    part { type, _ in type == pushType }
  }

  public func part(of priority: Priority) -> TopicCounters { part { $1 == priority } }

  /// The part whose push type and priority match; as balanced as the whole.
  private func part(_ contains: (PushType?, Priority) -> Bool) -> TopicCounters {
    var part = TopicCounters(topic: topic, environment: environment)
    for type in [nil] + PushType.allCases.map(Optional.some) {
      for priority in Priority.allCases where contains(type, priority) {
        for state in DeliveryState.allCases {
          let cell = Self.cell(state, pushType: type, priority: priority)
          part.cells[cell] = cells[cell]
        }
        let offset = Self.offset(pushType: type, priority: priority)
        part.unstored[offset] = unstored[offset]
      }
    }
    part.pending = Int64(bitPattern: part.accepted &- part.ended)
    return part
  }

  /// Counts everything that is pending as ended in that state.
  package mutating func endPending(_ state: DeliveryState) {
    for offset in 0..<Self.stateStride {
      cells[Int(state.rawValue) * Self.stateStride + offset] &+= UInt64(
        bitPattern: open(at: offset))
      unstored[offset] = 0
    }
    pending = 0
  }

  /// Accepted less ended ones of one push type and priority; see `offset`.
  package func open(at offset: Int) -> Int64 {
    var open: UInt64 = 0
    for state in DeliveryState.allCases {
      let number = cells[Int(state.rawValue) * Self.stateStride + offset]
      if state == .received { open &+= number } else if state.isTerminal { open &-= number }
    }
    return Int64(bitPattern: open)
  }

  /// Adds another worker's part of the same topic.
  public mutating func add(_ other: TopicCounters) {
    pending &+= other.pending
    for index in cells.indices { cells[index] &+= other.cells[index] }
    for index in unstored.indices { unstored[index] &+= other.unstored[index] }
  }
}

extension [TopicCounters] {
  /// One for each topic and environment: the workers' parts added up.
  package func added() -> [TopicCounters] {
    var total: [TopicCounters] = []
    for part in self {
      if let index = total.firstIndex(where: {
        $0.topic == part.topic && $0.environment == part.environment
      }) {
        total[index].add(part)
      } else {
        total.append(part)
      }
    }
    return total
  }
}
