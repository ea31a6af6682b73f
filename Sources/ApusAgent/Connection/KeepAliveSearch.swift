/// Finds how long a connection may stay silent in a network before something on the way forgets it.
///
/// The interval grows by half after each probe that was answered. One that was not answered, over a connection that is
/// otherwise fine, is the limit: from then on the interval is halved between the longest that worked and the shortest
/// that did not, until they are less than a quarter apart. The result is nine tenths of the longest that worked.
package struct KeepAliveSearch: Sendable, Equatable {
  package let bounds: KeepAliveBounds
  /// The longest silence after which a probe was answered; 0: none yet.
  package private(set) var answeredSeconds = 0
  /// The shortest silence after which one was not; nil: none yet.
  package private(set) var lostSeconds: Int?
  /// The silence after which the next probe is sent.
  package private(set) var intervalSeconds: Int
  /// Whether the search is over.
  package private(set) var isSettled = false

  package init(bounds: KeepAliveBounds) {
    self.bounds = bounds
    intervalSeconds = bounds.minimumSeconds
    isSettled = bounds.minimumSeconds == bounds.maximumSeconds
  }

  /// Continues from an earlier result.
  package init(bounds: KeepAliveBounds, answeredSeconds: Int, lostSeconds: Int?) {
    self.init(bounds: bounds)
    guard !isSettled, answeredSeconds >= bounds.minimumSeconds else { return }
    self.answeredSeconds = min(answeredSeconds, bounds.maximumSeconds)
    self.lostSeconds = lostSeconds.flatMap { $0 > answeredSeconds ? $0 : nil }
    choose()
  }

  /// A probe after this silence was answered. Returns whether the interval changed.
  package mutating func answered(afterSeconds silence: Int) -> Bool {
    guard !isSettled, silence >= intervalSeconds else { return false }
    let before = intervalSeconds
    answeredSeconds = min(max(answeredSeconds, silence), bounds.maximumSeconds)
    if let lost = lostSeconds, lost <= answeredSeconds { lostSeconds = nil }
    choose()
    return intervalSeconds != before
  }

  /// A probe after this silence was not answered, and a new connection succeeded at once. Returns whether the interval
  /// changed.
  package mutating func lost(afterSeconds silence: Int) -> Bool {
    guard bounds.minimumSeconds < bounds.maximumSeconds, silence >= bounds.minimumSeconds else {
      return false
    }
    let before = intervalSeconds
    // What worked once works no longer: the search begins again below it.
    if silence <= answeredSeconds { answeredSeconds = 0 }
    lostSeconds = min(silence, lostSeconds ?? silence)
    choose()
    return intervalSeconds != before
  }

  private mutating func choose() {
    let (shortest, longest) = (bounds.minimumSeconds, bounds.maximumSeconds)
    isSettled = false
    guard let lost = lostSeconds else {
      isSettled = answeredSeconds >= longest
      intervalSeconds = max(shortest, min(answeredSeconds + answeredSeconds / 2, longest))
      return
    }
    guard answeredSeconds >= shortest else {
      intervalSeconds = shortest
      return
    }
    isSettled = (lost - answeredSeconds) * 4 <= answeredSeconds
    intervalSeconds =
      isSettled
      ? max(shortest, answeredSeconds * 9 / 10) : answeredSeconds + (lost - answeredSeconds) / 2
  }
}

/// What is known of each network, as lines `NETWORK ANSWERED LOST` of a file; a network's name has no blanks.
package struct KnownNetworks: Sendable, Equatable {
  /// The least recently used network is forgotten for another one.
  static let capacity = 64
  private var known: [(network: String, answered: Int, lost: Int?)] = []

  package init() {}

  package init(text: String) {
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 3, let answered = Int(words[1]) else { continue }
      known.append((String(words[0]), answered, Int(words[2])))
    }
    known = known.suffix(Self.capacity)
  }

  package var text: String {
    known.map { "\($0.network) \($0.answered) \($0.lost.map(String.init) ?? "-")\n" }.joined()
  }

  package func search(_ network: String, bounds: KeepAliveBounds) -> KeepAliveSearch {
    guard let entry = known.first(where: { $0.network == network }) else {
      return KeepAliveSearch(bounds: bounds)
    }
    return KeepAliveSearch(bounds: bounds, answeredSeconds: entry.answered, lostSeconds: entry.lost)
  }

  package mutating func remember(_ search: KeepAliveSearch, of network: String) {
    known.removeAll { $0.network == network }
    known.append((network, search.answeredSeconds, search.lostSeconds))
    known = known.suffix(Self.capacity)
  }

  package static func == (left: KnownNetworks, right: KnownNetworks) -> Bool {
    left.text == right.text
  }
}
