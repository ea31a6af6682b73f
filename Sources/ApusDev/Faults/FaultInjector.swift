import ApusServer
import ApusWire
import Synchronization

/// The armed fault rules. Workers query it for each push.
final class FaultInjector: Sendable {
  private struct State {
    var rules: [FaultRule] = []
    var nextID: UInt64 = 1
    var opening = ConnectionOpening()
  }

  private let state = Mutex(State())
  private let isEmpty = Atomic(true)

  /// Maximum number of rules.
  static let capacity = 1000

  /// The first rule that applies; later rules do not see the push.
  func decide(_ facts: @autoclosure () -> MatchFacts) -> (rule: String, effect: FaultEffect)? {
    guard !isEmpty.load(ordering: .relaxed) else { return nil }
    let facts = facts()
    return state.withLock { state in
      for index in state.rules.indices where state.rules[index].strikes(facts) {
        return (state.rules[index].name, state.rules[index].effect)
      }
      return nil
    }
  }

  /// How provider connections are currently opened.
  var opening: ConnectionOpening { state.withLock { $0.opening } }

  var rules: [FaultRule] { state.withLock { $0.rules } }

  func add(_ value: JSONValue, at place: [JSONStep] = []) throws(InputFault) -> FaultRule {
    // Parsed outside the lock, because a worker may wait for it.
    let id = state.withLock { state in
      defer { state.nextID += 1 }
      return state.nextID
    }
    let rule = try FaultRule(value, id: id, at: place)
    let isTaken = state.withLock { state in
      guard state.rules.count < Self.capacity else { return false }
      state.rules.append(rule)
      Self.settle(&state)
      return true
    }
    guard isTaken else { throw InputFault("there are already \(Self.capacity) rules", at: place) }
    isEmpty.store(false, ordering: .relaxed)
    return rule
  }

  /// Adds a file of rules: a list, or an object with the list in `rules`. If one rule is invalid, none is added.
  func add(file text: [UInt8]) throws(InputFault) {
    let json = try JSONText.parse(text)
    var place: [JSONStep] = []
    var list = json.array
    if list == nil {
      var reader = try FieldReader(json)
      list = reader.value("rules")?.array
      place = [.key("rules")]
      try reader.finish()
    }
    guard let list else { throw InputFault("must be a list of rules", at: place) }
    for (index, value) in list.enumerated() {
      _ = try FaultRule(value, id: 0, at: place + [.index(index)])
    }
    for (index, value) in list.enumerated() { _ = try add(value, at: place + [.index(index)]) }
  }

  /// Returns false if no rule has the id.
  func remove(_ id: UInt64) -> Bool {
    state.withLock { state in
      guard let index = state.rules.firstIndex(where: { $0.id == id }) else { return false }
      state.rules.remove(at: index)
      Self.settle(&state)
      isEmpty.store(state.rules.isEmpty, ordering: .relaxed)
      return true
    }
  }

  func removeAll() {
    state.withLock { state in
      state.rules = []
      Self.settle(&state)
      isEmpty.store(true, ordering: .relaxed)
    }
  }

  /// Combines the rules for connections: the latest rule decides each setting.
  private static func settle(_ state: inout State) {
    var opening = ConnectionOpening()
    for case .opening(let wanted) in state.rules.map(\.effect) {
      if wanted.certificate != .good { opening.certificate = wanted.certificate }
      opening.maxConcurrentStreams = wanted.maxConcurrentStreams ?? opening.maxConcurrentStreams
      opening.initialWindowBytes = wanted.initialWindowBytes ?? opening.initialWindowBytes
    }
    state.opening = opening
  }
}
