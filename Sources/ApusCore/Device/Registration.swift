package import ApusModel

/// The status of a token on its device.
package enum Standing: Equatable, Sendable {
  case active(TopicState)
  /// The token is dead since that time.
  case dead(sinceMilliseconds: Int64)
  /// The device never listed the topic and has no token for it.
  case unknown
}

/// The topics of one device in one environment: the last filter, and the tokens issued.
package struct Registration: Sendable, Equatable {
  /// Ordered by app and suffix.
  package private(set) var topics: [TopicRegistration]

  package init(topics: [TopicRegistration] = []) {
    self.topics = topics.sorted { Self.sortKey($0.topic) < Self.sortKey($1.topic) }
  }

  /// Takes topics that are already in order.
  package init(ordered topics: [TopicRegistration]) { self.topics = topics }

  private static func sortKey(_ topic: TopicKey) -> UInt64 {
    UInt64(topic.app.rawValue) << 8 | UInt64(topic.suffix.rawValue)
  }

  /// The index of `topic`, or where to insert it.
  @inline(__always)
  private func place(of topic: TopicKey) -> (index: Int, found: Bool) {
    let key = Self.sortKey(topic)
    var low = 0
    var high = topics.count
    while low < high {
      let middle = (low + high) / 2
      let other = Self.sortKey(topics[middle].topic)
      if other == key { return (middle, true) }
      if other < key { low = middle + 1 } else { high = middle }
    }
    return (low, false)
  }

  package subscript(topic: TopicKey) -> TopicRegistration? {
    @inline(__always) get {
      let (index, found) = place(of: topic)
      return found ? topics[index] : nil
    }
  }

  /// Judges a token's claims.
  ///
  /// Generation 0 is the device's base token, which has no generation of its own: a provider may use it with any topic
  /// that the device has listed. `graceMilliseconds` pass between the filter that drops a topic and the token's death,
  /// so that an app update, which removes and lists a topic again, kills no token.
  @inline(__always)
  package func standing(
    of claims: TokenClaims, nowMilliseconds: Int64, graceMilliseconds: Int64
  ) -> Standing {
    guard let entry = self[claims.topic] else { return .unknown }
    if claims.generation != 0, claims.generation != entry.generation {
      return .dead(sinceMilliseconds: entry.generationSinceMilliseconds)
    }
    if entry.isGone(nowMilliseconds, graceMilliseconds) {
      return .dead(sinceMilliseconds: entry.stateSinceMilliseconds)
    }
    return .active(entry.state)
  }

  /// Whether the token is active at any time: all that an abridged registration can tell.
  ///
  /// Not so for a dropped topic, whose grace may be over, nor for another generation, whose time of death must be
  /// reported.
  package func isSurelyActive(_ claims: TokenClaims) -> Bool {
    guard let entry = self[claims.topic] else { return false }
    return (claims.generation == 0 || claims.generation == entry.generation)
      && (entry.state != .unlisted || !entry.wasListed)
  }

  /// The same without times, which are not needed to say that a token is active.
  package func abridged() -> Registration {
    var topics = topics
    for index in topics.indices {
      topics[index].stateSinceMilliseconds = 0
      topics[index].generationSinceMilliseconds = 0
    }
    return Registration(topics: topics)
  }

  /// Whether both are equal apart from times.
  package func isAbridged(of other: Registration) -> Bool {
    guard topics.count == other.topics.count else { return false }
    for index in topics.indices where !topics[index].isSame(other.topics[index]) { return false }
    return true
  }

  /// What a new filter changed.
  package struct FilterChange: Equatable {
    /// Topics whose stored notifications may be delivered now and could not before.
    package var opened: [TopicKey] = []
    /// Topics that must receive nothing more.
    package var closed: [TopicKey] = []
    /// Topics that are no longer in any list.
    package var dropped: [TopicKey] = []
    package var isEmpty: Bool = true
  }

  /// Replaces all lists at once: `lists` has the state of every topic in them; other topics are in none.
  ///
  /// An app that returns after its grace was reinstalled, whether it lists its topic or requests a token first: the
  /// old token stays dead.
  ///
  /// - Parameters:
  ///   - firstGeneration: See `generationForToken`.
  ///   - renewsListed: False breaks that rule for an app that lists its topic first, for simulations.
  package mutating func apply(
    lists: [TopicKey: TopicState], nowMilliseconds: Int64, graceMilliseconds: Int64,
    firstGeneration: UInt16 = 1, renewsListed: Bool = true
  ) -> FilterChange {
    var change = FilterChange()
    for index in topics.indices {
      let state = lists[topics[index].topic] ?? .unlisted
      guard state != topics[index].state else { continue }
      addChange(change: &change, topic: topics[index].topic, from: topics[index].state, to: state)
      if renewsListed, topics[index].generation != 0,
        topics[index].isGone(nowMilliseconds, graceMilliseconds)
      {
        topics[index].renewGeneration(
          sinceMilliseconds: topics[index].stateSinceMilliseconds, first: firstGeneration)
      }
      topics[index].state = state
      topics[index].stateSinceMilliseconds = nowMilliseconds
      // Equal times are those of an invalidated one.
      if state == .unlisted, topics[index].generationSinceMilliseconds == nowMilliseconds {
        topics[index].generationSinceMilliseconds -= 1
      }
      if state != .unlisted { topics[index].wasListed = true }
    }
    for (topic, state) in lists where self[topic] == nil {
      insert(topic, generation: 0, state: state, nowMilliseconds: nowMilliseconds)
      addChange(change: &change, topic: topic, from: .unlisted, to: state)
    }
    return change
  }

  private func addChange(
    change: inout FilterChange, topic: TopicKey, from old: TopicState, to new: TopicState
  ) {
    change.isEmpty = false
    if new.flows, !old.flows { change.opened.append(topic) }
    if !new.flows, old.flows { change.closed.append(topic) }
    if new == .unlisted { change.dropped.append(topic) }
  }

  private mutating func insert(
    _ topic: TopicKey, generation: UInt16, state: TopicState, nowMilliseconds: Int64
  ) {
    topics.insert(
      TopicRegistration(
        topic: topic, generation: generation, state: state, wasListed: state != .unlisted,
        stateSinceMilliseconds: nowMilliseconds, generationSinceMilliseconds: nowMilliseconds),
      at: place(of: topic).index)
  }

  /// The generation for issuing an app's token.
  ///
  /// It is unchanged for as long as the app is installed. An app that was removed and requests a token again was
  /// reinstalled: its old token was reported dead and stays dead. An app that was dropped and requests one within its
  /// grace is back; this is recorded before it gets its token, because the token would die if the filter that lists
  /// the app were lost.
  ///
  /// - Parameter firstGeneration: Of new tokens, at least 1. A restored store does not know which were issued since its
  ///   backup, so it begins higher.
  package mutating func generationForToken(
    of topic: TopicKey, nowMilliseconds: Int64, graceMilliseconds: Int64,
    firstGeneration: UInt16 = 1
  ) -> (generation: UInt16, changed: Bool) {
    let (index, found) = place(of: topic)
    guard found else {
      insert(
        topic, generation: firstGeneration, state: .unlisted, nowMilliseconds: nowMilliseconds)
      return (firstGeneration, true)
    }
    let entry = topics[index]
    let isGone = entry.isGone(nowMilliseconds, graceMilliseconds)
    let isBack = entry.isDropped
    guard entry.generation == 0 || isBack else { return (entry.generation, false) }
    if entry.generation == 0 || isGone {
      topics[index].renewGeneration(
        sinceMilliseconds: isGone ? entry.stateSinceMilliseconds : nowMilliseconds,
        first: firstGeneration)
    }
    if isBack {
      topics[index].wasListed = false
      topics[index].stateSinceMilliseconds = nowMilliseconds
    }
    return (topics[index].generation, true)
  }

  /// The death of the app's token is told: gives the topic the next generation, so that the token stays dead if the
  /// clock is set back into the grace. False if nothing changed.
  package mutating func invalidate(_ claims: TokenClaims, firstGeneration: UInt16 = 1) -> Bool {
    let (index, found) = place(of: claims.topic)
    guard found, claims.generation != 0, claims.generation == topics[index].generation,
      topics[index].isDropped
    else { return false }
    topics[index].renewGeneration(
      sinceMilliseconds: topics[index].stateSinceMilliseconds, first: firstGeneration)
    return true
  }
}

extension TopicRegistration {
  /// Whether the app was listed, and is no longer.
  fileprivate var isDropped: Bool { state == .unlisted && wasListed }

  /// Whether the death of its token was told (`Registration.invalidate`): no token has its generation.
  var isInvalidated: Bool { isDropped && generationSinceMilliseconds == stateSinceMilliseconds }

  /// Whether the app was dropped so long ago that its token is dead.
  fileprivate func isGone(_ nowMilliseconds: Int64, _ graceMilliseconds: Int64) -> Bool {
    isDropped && nowMilliseconds - stateSinceMilliseconds >= graceMilliseconds
  }

  /// Tokens of older generations are dead since that time. For a dropped app it is the time of the drop and does not
  /// change: it is already in the feedback list.
  fileprivate mutating func renewGeneration(sinceMilliseconds: Int64, first: UInt16) {
    // Generation 0 means none, so the counter wraps from 65535 to the first.
    generation = generation == .max ? first : max(generation + 1, first)
    generationSinceMilliseconds = sinceMilliseconds
  }

  /// Whether both are equal apart from times.
  fileprivate func isSame(_ other: TopicRegistration) -> Bool {
    topic == other.topic && generation == other.generation && state == other.state
      && wasListed == other.wasListed
  }
}

extension TopicState {
  /// Whether notifications of such a topic are delivered.
  package var flows: Bool {
    switch self {
    case .enabled, .nonWaking, .opportunistic: true
    case .paused, .ignored, .unlisted: false
    }
  }
}
