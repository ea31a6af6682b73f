import ApusRandom
import ApusModel
import ApusWire
import Testing

extension SeededRandom {
  fileprivate mutating func chance(_ percent: Int) -> Bool { chance(percent, in: 100) }
}

/// Notifications as providers write them, most of them damaged somewhere.
private struct FrameSource {
  var random: SeededRandom

  mutating func next() -> [UInt8] {
    var bytes =
      switch random.pick([0, 1, 2, 2, 2, 2]) {
      case 0: [0] + lengthAndToken() + lengthAndPayload()
      case 1: [1] + random.bytes(8) + lengthAndToken() + lengthAndPayload()
      default: framed()
      }
    if random.chance(3) { bytes[0] = UInt8.random(in: 0...9, using: &random) }
    if random.chance(10) {
      let place = Int.random(in: 0..<min(bytes.count, 60), using: &random)
      bytes[place] = UInt8(truncatingIfNeeded: random.next())
    }
    if random.chance(10) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
    if random.chance(40) { bytes += random.bytes(Int.random(in: 0...20, using: &random)) }
    return bytes
  }

  private mutating func measured(_ count: Int) -> [UInt8] {
    [UInt8(count >> 8), UInt8(count & 255)] + random.bytes(count)
  }

  private mutating func lengthAndToken() -> [UInt8] {
    measured(random.chance(85) ? 32 : random.pick([0, 0, 1, 31, 33, 100, 101, 300]))
  }

  private mutating func lengthAndPayload() -> [UInt8] {
    measured(random.chance(85) ? random.pick([1, 2, 22, 60]) : random.pick([0, 0, 99, 100, 101]))
  }

  private mutating func framed() -> [UInt8] {
    var numbers: [UInt8] = [1, 2]
    for number: UInt8 in [3, 4, 5] where random.chance(75) { numbers.append(number) }
    if random.chance(60) { numbers.shuffle(using: &random) }
    if random.chance(8) { numbers.remove(at: Int.random(in: 0..<numbers.count, using: &random)) }
    if random.chance(8) { numbers.append(random.pick(numbers)) }
    if random.chance(8) { numbers.insert(random.pick([0, 6, 7, 0x7f, 0xff]), at: 0) }
    if random.chance(8) { numbers.append(random.pick([0, 6, 7, 0x7f, 0xff])) }
    var items = numbers.flatMap { number in [number] + value(of: number) }
    if random.chance(6) { items += random.bytes(random.pick([1, 2, 3])) }
    if random.chance(6) { items.removeLast(min(items.count, random.pick([1, 2, 3, 9]))) }
    var length = items.count
    if random.chance(4) { length = max(0, length + Int.random(in: -9...9, using: &random)) }
    if random.chance(1) { length = random.pick([0, 131_072, 131_073, 1 << 24, Int(UInt32.max)]) }
    return [2] + [24, 16, 8, 0].map { UInt8(length >> $0 & 255) } + items
  }

  private mutating func value(of number: UInt8) -> [UInt8] {
    switch number {
    case 1: lengthAndToken()
    case 2: lengthAndPayload()
    case 3, 4: measured(random.chance(95) ? 4 : random.pick([0, 1, 3, 5, 8]))
    case 5: measured(random.chance(95) ? 1 : random.pick([0, 2, 4]))
    default: measured(random.pick([0, 1, 4, 32]))
    }
  }
}

@Suite("Random frames of the binary provider interface")
struct BinaryRandomTests {
  private static let limits = [
    BinaryFrameLimits(), BinaryFrameLimits(skipsUnknownItems: true),
    BinaryFrameLimits(tokenBytes: 1...100, simplePayloadBytes: 100, framedPayloadBytes: 100),
    BinaryFrameLimits(
      tokenBytes: 0...65_535, simplePayloadBytes: 2, framedPayloadBytes: 65_535,
      skipsUnknownItems: true),
  ]

  @Test("Frames are read as the reference reads them", arguments: [1, 2, 3, 4] as [UInt64])
  func againstReference(seed: UInt64) {
    var source = FrameSource(random: SeededRandom(seed: seed))
    var kinds: Set<Int> = []
    for step in 0..<10_000 {
      let bytes = source.next()
      let limits = source.random.pick(Self.limits)
      let reference = BinaryReference(limits: limits)
      let cut = Int.random(in: 1...bytes.count, using: &source.random)
      for part in [bytes, Array(bytes[..<cut])] {
        let (verdict, expected) = (BinaryVerdict(part, limits), reference.verdict(part))
        kinds.insert(kind(verdict))
        guard verdict == expected else {
          Issue.record("seed \(seed), step \(step): \(verdict), not \(expected): \(part)")
          return
        }
      }
    }
    #expect(kinds.count == 14, "all verdicts came up: \(kinds.sorted())")
  }

  @Test("The outcome of a prefix is that of the whole", arguments: [5, 6] as [UInt64])
  func prefixes(seed: UInt64) {
    var source = FrameSource(random: SeededRandom(seed: seed))
    for step in 0..<500 {
      let bytes = source.next()
      let limits = source.random.pick(Self.limits)
      BinaryFixture.checkPrefixes("seed \(seed), step \(step)", bytes, limits)
    }
  }

  @Test("Frames that are written can be read", arguments: [7, 8] as [UInt64])
  func roundTrip(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var stream: [UInt8] = []
    var expected: [BinaryVerdict] = []
    for _ in 0..<1000 {
      let start = stream.count
      var fields = BinaryFields(
        command: random.pick(BinaryCommand.allCases), byteCount: 0, token: random.bytes(32),
        payload: random.bytes(Int.random(in: 1...300, using: &random)))
      let (identifier, expiration) = (UInt32.random(in: 0 ... .max, using: &random), UInt32(9))
      switch fields.command {
      case .simple: stream.append(simple: fields.token.span, payload: fields.payload.span)
      case .enhanced:
        fields.identifier = identifier
        fields.expiration = expiration
        stream.append(
          enhanced: fields.token.span, payload: fields.payload.span, identifier: identifier,
          expiration: expiration)
      case .framed:
        fields.identifier = random.chance(50) ? identifier : nil
        fields.expiration = random.chance(50) ? expiration : nil
        fields.priority = random.chance(50) ? UInt8.random(in: 0...255, using: &random) : nil
        stream.append(
          framed: fields.token.span, payload: fields.payload.span, identifier: fields.identifier,
          expiration: fields.expiration, priority: fields.priority)
      }
      fields.byteCount = stream.count - start
      expected.append(.frame(fields))
    }
    var rest = stream[...]
    for (index, verdict) in expected.enumerated() {
      let found = BinaryVerdict(Array(rest.prefix(400)))
      guard found == verdict, case .frame(let fields) = found else {
        Issue.record("seed \(seed), number \(index): \(found), not \(verdict)")
        return
      }
      rest = rest.dropFirst(fields.byteCount)
    }
    #expect(rest.isEmpty)
  }

  /// Which of the 14 outcomes it is: incomplete, a frame of one of three commands, one of ten faults.
  private func kind(_ verdict: BinaryVerdict) -> Int {
    switch verdict {
    case .incomplete: 0
    case .frame(let fields): 1 + Int(fields.command.rawValue)
    case .fault(let fault, _, _):
      switch fault {
      case .unknownCommand: 4
      case .frameTooLong: 5
      case .itemBeyondFrame: 6
      case .unknownItem: 7
      case .repeatedItem: 8
      case .itemLength: 9
      case .tokenMissing: 10
      case .tokenLength: 11
      case .payloadMissing: 12
      case .payloadTooLong: 13
      }
    }
  }
}
