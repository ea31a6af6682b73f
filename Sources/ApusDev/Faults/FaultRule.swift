import ApusDevice
import ApusModel
package import ApusServer
package import ApusWire

/// What goes wrong where a rule says so.
package enum FaultEffect: Sendable, Hashable {
  /// With one request.
  case request(PlannedFault.Effect)
  /// The device that the push is for goes offline, before the push is judged.
  case deviceOffline
  /// With every provider's connection that is opened while the rule is there.
  case opening(RehearsedOpening)
}

/// When something goes wrong, and what. A value: the same pushes in the same order meet the same faults.
package struct FaultRule: Sendable {
  package enum Trigger: Sendable, Hashable {
    case always
    /// The n-th push that matches, from 1, and no other.
    case nth(Int)
    /// Every n-th.
    case every(Int)
    /// Of a share of them, from 0 to 1, which ones following from the seed.
    case rate(Double, seed: UInt64)
  }

  package var id: UInt64
  package var name: String
  package var matcher: Matcher
  package var trigger: Trigger
  /// How often it strikes at most; nil for no limit.
  package var times: Int?
  package var effect: FaultEffect
  /// The effect as it was written.
  package var effectSource: JSONValue
  /// Pushes that matched so far.
  package private(set) var matched = 0
  /// Those that it struck.
  package private(set) var struck = 0
  private var generator: SeededGenerator

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
      generator = SeededGenerator(seed: seed)
    } else {
      generator = SeededGenerator(seed: 0)
    }
    if case .opening = self.effect, trigger != .always || times != nil || !matcher.isEmpty {
      throw InputFault(
        "is of connections, which are opened before any push: it takes no match, nth, every, rate "
          + "or times", at: reader.place(of: "effect"))
    }
  }

  private static func trigger(_ reader: inout FieldReader) throws(InputFault) -> Trigger {
    let nth = try reader.integer("nth", 1...1_000_000_000)
    let every = try reader.integer("every", 1...1_000_000_000)
    let rate = try reader.number("rate", 0...1)
    let seed = try reader.integer("seed", 0...Int64.max)
    let given = [("nth", nth != nil), ("every", every != nil), ("rate", rate != nil)].filter(\.1)
    guard given.count <= 1 else {
      throw reader.fault(given[1].0, "cannot stand beside \(given[0].0)")
    }
    guard seed == nil || rate != nil else {
      throw reader.fault("seed", "has no meaning without rate")
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

  /// Whether it strikes a push, which counts as seen by it.
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
      // One number for each push that matches, struck or not. 53 bits, as a Double has them.
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
