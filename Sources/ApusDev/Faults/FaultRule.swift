import ApusRandom
import ApusDevice
import ApusModel
package import ApusServer
package import ApusWire

/// The effect of a fault rule.
package enum FaultEffect: Sendable, Hashable {
  /// On one request.
  case request(PlannedFault.Effect)
  /// The push's device goes offline before the service decides on the push.
  case deviceOffline
  /// On every provider connection opened while the rule is armed.
  case opening(ConnectionOpening)
}

/// A rule for faults. Deterministic: the same pushes in the same order get the same faults.
package struct FaultRule: Sendable {
  package enum Trigger: Sendable, Hashable {
    case always
    /// Only the n-th matching push, counted from 1.
    case nth(Int)
    /// Every n-th matching push.
    case every(Int)
    /// A share of the matching pushes, from 0 to 1, selected by the seed.
    case rate(Double, seed: UInt64)
  }

  package var id: UInt64
  package var name: String
  package var matcher: Matcher
  package var trigger: Trigger
  /// Maximum number of applications; nil for no limit.
  package var times: Int?
  package var effect: FaultEffect
  /// The effect as written.
  package var effectSource: JSONValue
  /// Number of pushes that matched so far.
  package private(set) var matched = 0
  /// Number of pushes to which the effect was applied.
  package private(set) var struck = 0
  private var generator: SeededRandom

  /// Reads a rule: `{"name", "match", "nth" | "every" | "rate" + "seed", "times", "effect"}`.
  package init(
    _ value: JSONValue, id: UInt64, at place: [JSONStep] = []
  ) throws(InputFault) {
    self.id = id
    var reader = try FieldReader(value, at: place)
    let name = try reader.string("name", maximumBytes: 100)
    matcher =
      try reader.value("match").map { (value) throws(InputFault) in
        try Matcher(value, at: place + [.key("match")], ofRequests: true)
      } ?? .all
    trigger = try Self.trigger(&reader)
    times = try reader.integer("times", 1...1_000_000_000).map(Int.init)
    let effect = try reader.required(reader.value("effect"), "effect")
    self.effect = try FaultEffect(effect, at: reader.place(of: "effect"))
    effectSource = effect
    try reader.finish()
    self.name = name ?? effect["type"]?.string ?? "rule \(id)"
    if case .rate(_, let seed) = trigger {
      generator = SeededRandom(seed: seed)
    } else {
      generator = SeededRandom(seed: 0)
    }
    if case .opening = self.effect, trigger != .always || times != nil || !matcher.isEmpty {
      throw InputFault(
        "applies to connections, which are opened before any push, so match, nth, every, rate "
          + "and times are not allowed", at: reader.place(of: "effect"))
    }
  }

  private static func trigger(_ reader: inout FieldReader) throws(InputFault) -> Trigger {
    let nth = try reader.integer("nth", 1...1_000_000_000)
    let every = try reader.integer("every", 1...1_000_000_000)
    let rate = try reader.number("rate", 0...1)
    let seed = try reader.integer("seed", 0...Int64.max)
    let given = [("nth", nth != nil), ("every", every != nil), ("rate", rate != nil)].filter(\.1)
    guard given.count <= 1 else {
      throw reader.fault(given[1].0, "cannot be combined with \(given[0].0)")
    }
    guard seed == nil || rate != nil else {
      throw reader.fault("seed", "has no effect without rate")
    }
    if let nth { return .nth(Int(nth)) }
    if let every { return .every(Int(every)) }
    return rate.map { .rate($0, seed: UInt64(seed ?? 1)) } ?? .always
  }

  package var isSpent: Bool {
    if let times, struck >= times { return true }
    if case .nth(let number) = trigger { return matched >= number }
    return false
  }

  /// Whether the rule applies to a push. Counts the push.
  package mutating func strikes(_ facts: MatchFacts) -> Bool {
    if case .opening = effect { return false }
    guard matcher.matches(facts) else { return false }
    matched += 1
    let isMeant: Bool
    switch trigger {
    case .always: isMeant = true
    case .nth(let number): isMeant = matched == number
    case .every(let number): isMeant = matched % number == 0
    case .rate(let rate, _):
      // One random number for each matching push, with the 53 bits of a Double.
      isMeant = Double(generator.next() >> 11) * 0x1p-53 < rate
    }
    if let times, struck >= times { return false }
    if isMeant { struck += 1 }
    return isMeant
  }

  package func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("id", String(id))
    writer.text("name", name)
    writer.key("match")
    writer.value(matcher.source)
    switch trigger {
    case .always: break
    case .nth(let number): writer.integer("nth", Int64(number))
    case .every(let number): writer.integer("every", Int64(number))
    case .rate(let rate, let seed):
      writer.key("rate")
      writer.number(rate)
      writer.integer("seed", Int64(clamping: seed))
    }
    if let times { writer.integer("times", Int64(times)) }
    writer.key("effect")
    writer.value(effectSource)
    writer.integer("matched", Int64(matched))
    writer.integer("struck", Int64(struck))
    writer.key("spent")
    writer.bool(isSpent)
    writer.endObject()
  }
}
