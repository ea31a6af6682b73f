import ApusModel
import ApusTesting
import Testing

@testable import ApusClient

@Suite("Whatever a service sends, at any moment, each push has the outcome that is certain")
struct MisbehaviourTests {
  /// The pushes: 1 is the victim, 2 the bystander, and 3 follows when both have their outcomes.
  @Test("One frame that is wrong", arguments: Misbehaviour.Moment.allCases)
  func all(moment: Misbehaviour.Moment) throws {
    for misbehaviour in Misbehaviour.all {
      // Whole, and byte by byte if that does not take too long.
      let count = misbehaviour.bytes(.init(victim: 1, bystander: 3)).count
      for piece in count < 2000 ? [Int.max, 1] : [Int.max] {
        let world = MisbehavingWorld(misbehaviour, moment, piece: piece)
        let faults = try world.run()
        #expect(faults.isEmpty, "\(misbehaviour), \(moment), \(piece == 1 ? "in bytes" : "whole")")
      }
    }
  }

  /// What is expected is so various that a client that always said the same would fail.
  @Test("The cases reach every kind of outcome")
  func variety() {
    var seen: Set<ExpectedOutcome> = []
    for moment in Misbehaviour.Moment.allCases {
      for misbehaviour in Misbehaviour.all {
        seen.insert(ExpectedOutcome(ofVictim: misbehaviour, moment))
        seen.insert(ExpectedOutcome(ofBystander: misbehaviour, moment))
      }
    }
    for outcome: ExpectedOutcome in [
      .accepted, .rejected(400), .rejected(403), .rejected(410), .unknown(mayDuplicate: true),
      .unknown(mayDuplicate: false),
    ] {
      #expect(seen.contains(outcome))
    }
  }
}

enum ExpectedOutcome: Hashable {
  case accepted
  case rejected(UInt16)
  case unknown(mayDuplicate: Bool)

  init(_ outcome: SendOutcome) {
    self =
      switch outcome {
      case .accepted: .accepted
      case .rejected(let rejection): .rejected(rejection.status)
      case .unknown(_, let mayDuplicate): .unknown(mayDuplicate: mayDuplicate)
      }
  }

  init(ofVictim misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) {
    let isWhole = !moment.isPartial || misbehaviour.releasesBody
    switch misbehaviour.effect(at: moment) {
    case .connectionError where moment.isOpen && isWhole: self = .unknown(mayDuplicate: true)
    case .streamError: self = .unknown(mayDuplicate: isWhole)
    // A response that has begun contradicts what the service says.
    case .reset(isRefused: true) where moment.isAsked: self = .accepted
    case .reset: self = .unknown(mayDuplicate: isWhole)
    case .goAway(spares: 0) where moment.isAnswering: self = .unknown(mayDuplicate: true)
    case .rejected(let status): self = .rejected(status)
    case .unclear: self = .unknown(mayDuplicate: true)
    // Sent again on another connection, if it was not answered on the first.
    case .ignored, .connectionError, .goAway, .accepted: self = .accepted
    }
  }

  init(ofBystander misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) {
    let isLost = misbehaviour.effect(at: moment) == .connectionError || misbehaviour.closes
    let isOpen = moment.isOpen || moment == .afterResponse
    self = isLost && isOpen && !moment.isPartial ? .unknown(mayDuplicate: true) : .accepted
  }
}

/// A dispatcher whose first service misbehaves; all others are good.
private final class MisbehavingWorld {
  private let misbehaviour: Misbehaviour
  private let moment: Misbehaviour.Moment
  private let piece: Int
  private let bench = Bench()
  private var wires: [(session: ProviderSession, peer: MisbehavingPeer, isLost: Bool)] = []

  init(_ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment, piece: Int) {
    (self.misbehaviour, self.moment, self.piece) = (misbehaviour, moment, piece)
  }

  /// What is wrong, in words.
  func run() throws -> [String] {
    try bench.send(1...2)
    let isIdle = moment == .idle
    connect(MisbehavingPeer(misbehaviour, moment))
    settle(until: 2)
    if isIdle {
      wires[0].peer.misbehave()
      move(0)
    }
    try bench.send(3...3)
    settle(until: 3)
    return faults()
  }

  private func connect(_ peer: MisbehavingPeer) {
    wires.append((bench.connect(streams: nil), peer, false))
  }

  /// Lets bytes move and time pass, until so many pushes have outcomes; not longer than a push may take.
  private func settle(until count: Int) {
    for _ in 0..<400 {
      for index in wires.indices { move(index) }
      guard bench.outcomes.count < count else { return }
      bench.fill()
      if bench.wantsConnection {
        wires.append(
          (bench.dispatcher.connected(nowMilliseconds: bench.now), MisbehavingPeer(), false))
      }
      bench.wait(milliseconds: 50)
    }
  }

  /// Moves all bytes in both directions.
  private func move(_ index: Int) {
    let session = wires[index].session
    for _ in 0..<20 where !wires[index].isLost {
      wires[index].peer.receive(bench.take(session))
      let bytes = wires[index].peer.takeOutput()
      for start in stride(from: 0, to: bytes.count, by: piece) where !wires[index].isLost {
        let isGood = bytes[start...].prefix(piece).withUnsafeBytes { session.receive($0) }
        if isGood {
          bench.dispatcher.progress(session, nowMilliseconds: bench.now)
        } else {
          // What the session still has to say is written.
          wires[index].peer.receive(bench.take(session))
          lose(index)
        }
      }
      if wires[index].peer.isEnding { lose(index) }
      if session.isFinished || session.isDone { finish(index) }
    }
  }

  private func lose(_ index: Int) {
    guard !wires[index].isLost else { return }
    wires[index].isLost = true
    bench.lose(wires[index].session)
  }

  /// As a driver ends a connection that has nothing more to do.
  private func finish(_ index: Int) {
    guard !wires[index].isLost else { return }
    if wires[index].session.openCount > 0 { return lose(index) }
    wires[index].isLost = true
  }

  // MARK: The laws

  private func faults() -> [String] {
    var faults: [String] = []
    let expected: [UInt64: ExpectedOutcome] = [
      1: ExpectedOutcome(ofVictim: misbehaviour, moment),
      2: ExpectedOutcome(ofBystander: misbehaviour, moment), 3: .accepted,
    ]
    for (number, expected) in expected.sorted(by: { $0.key < $1.key }) {
      let outcome = bench.outcomes[number].map { ExpectedOutcome($0) }
      let id = Bench.id(number).text.lowercased()
      let taken = wires.flatMap(\.peer.arrivals).count { $0.id == id && !$0.isRefused }
      if outcome != expected {
        faults.append("push \(number) is \(String(describing: outcome)) in place of \(expected)")
      }
      if taken > 1 { faults.append("push \(number) arrived \(taken) times") }
      if outcome == .unknown(mayDuplicate: false), taken > 0 {
        faults.append("push \(number) arrived, and is called certainly lost")
      }
    }
    let isError = misbehaviour.effect(at: moment) == .connectionError && !misbehaviour.closes
    if isError, !wires[0].isLost { faults.append("the connection goes on") }
    if bench.dispatcher.openCount > 0 { faults.append("pushes are still open") }
    return faults
  }
}
