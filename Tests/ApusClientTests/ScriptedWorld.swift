import ApusRandom
import ApusModel
import ApusTesting
import Synchronization

@testable import ApusClient

/// A dispatcher with its connections, each to a scripted service, in a world determined by a seed: bytes in flight,
/// losses, and delays.
final class ScriptedWorld {
  fileprivate final class Wire {
    let session: ProviderSession
    var peer = ScriptedPeer()
    var toPeer: [UInt8] = []
    var isClosed = false

    init(_ session: ProviderSession) { self.session = session }
  }

  let seed: UInt64
  private var random: SeededRandom
  private var now: UInt64 = 1_000_000
  private let dispatcher: Dispatcher
  private var wires: [Wire] = []
  private var attempts = 0
  private var sends: [PendingSend] = []
  private let job: BulkJob
  private let bell: Bell

  /// The wake-up of a bulk send for the loop.
  private final class Bell: Sendable {
    let hasRung = Mutex(false)
  }
  private var isFed = false
  private var bulkCount = 0
  private var read: [BulkPush] = []
  private var vacant: [BulkPush] = []

  /// The outcomes for the callers, by id.
  private(set) var outcomes: [String: [SendOutcome]] = [:]
  private(set) var sentIDs: [String] = []
  /// How often any service accepted it, by id.
  private(set) var takenCounts: [String: Int] = [:]
  private(set) var broken: [String] = []

  init(seed: UInt64) {
    self.seed = seed
    var random = SeededRandom(seed: seed)
    var settings = DispatcherSettings(authority: Array("push.example".utf8), queueCapacity: 20)
    settings.maximumConnections = 1 + random.below(4)
    settings.pingAfterMilliseconds = 5000
    settings.shrinkAfterMilliseconds = 5000
    settings.retriesRefusals = random.chance(3, in: 4)
    var entropy = random.split()
    dispatcher = Dispatcher(
      settings: settings, authorization: { Array("bearer a.b.c".utf8) },
      renewAuthorization: { true }, entropy: { entropy.next() })
    let bell = Bell()
    self.bell = bell
    job = BulkJob(capacity: 1 + random.below(20), timeoutMilliseconds: 30_000) { _ in
      bell.hasRung.withLock { $0 = true }
      return true
    }
    self.random = random
  }

  // MARK: The walk

  func run(steps: Int) {
    for _ in 0..<steps { step() }
    end()
    judge()
  }

  private func step() {
    switch random.below(16) {
    case 0: for _ in 0...random.below(4) { send() }
    case 1: feed()
    case 2: readBulk()
    case 3 where random.chance(1, in: 8): cancel()
    case 4: decideAttempt()
    case 5...8: somePeer { $0.act(&random) }
    case 9 where random.chance(1, in: 20): loseSome()
    case 10: wait(random.between(1, random.pick([20, 200, 3000])))
    default: for wire in wires { move(wire) }
    }
    turn()
  }

  /// Adds no more pushes; from now on all services work, or are gone.
  private func end() {
    isFed = true
    job.inputEnded(failure: nil)
    let isGood = random.chance(1, in: 2)
    for _ in 0..<3000 {
      guard dispatcher.openCount > 0 || outcomes.count < sentIDs.count else { break }
      if isGood {
        while attempts > 0 { connect() }
        for wire in wires { wire.makeGood() }
      } else {
        while attempts > 0 { refuseAttempt() }
      }
      for wire in wires { move(wire, isAll: true) }
      wait(100)
      readBulk()
      turn()
    }
    for wire in wires { lose(wire) }
  }

  private func wait(_ milliseconds: UInt64) {
    now += milliseconds
    dispatcher.tick(nowMilliseconds: now)
  }

  // MARK: Pushes

  private func newPush() -> EncodedPush {
    let id = NotificationID(high: seed, low: UInt64(sentIDs.count))
    sentIDs.append(id.text.lowercased())
    let sizes = [2, 200, 4000]
    var request = PushRequest(
      token: "0a0b", topic: "com.example.app",
      payload: [UInt8](repeating: 0x20, count: random.pick(sizes)))
    if sentIDs.count.isMultiple(of: 4) {
      request.token = ""
      request.channel = BroadcastChannel.ID("YQ==")
      request.pushType = .liveactivity
      request.expirationSeconds = 0
    }
    request.id = id
    guard let push = try? EncodedPush(request, id: id) else { preconditionFailure("a good push") }
    return push
  }

  private func note(_ push: EncodedPush, _ outcome: SendOutcome) {
    outcomes[push.id.text.lowercased(), default: []].append(outcome)
  }

  private func send() {
    let push = newPush()
    let timeout = random.between(100, 30_000)
    let send = PendingSend(push: push, timeoutMilliseconds: timeout) { [unowned self] in
      note(push, $0)
    }
    sends.append(send)
    dispatcher.add(send, nowMilliseconds: now)
  }

  private func cancel() {
    guard !sends.isEmpty else { return }
    dispatcher.cancel(random.pick(sends), nowMilliseconds: now)
  }

  private func feed() {
    guard !isFed else { return }
    for _ in 0...random.below(6) {
      if vacant.isEmpty, job.vacancies(&vacant) != .some { return }
      guard let send = vacant.popLast()?.send else { return }
      send.push = newPush()
      job.submit(send)
    }
  }

  private func readBulk() {
    guard case .some = job.exchange(&read) else { return }
    for send in read.map(\.send) {
      guard case .success(let outcome) = send.result else {
        broken.append("a bulk push came back without an outcome")
        continue
      }
      note(send.push, outcome)
    }
  }

  // MARK: Connections

  private func decideAttempt() {
    guard attempts > 0 else { return }
    if random.chance(3, in: 4) { connect() } else { refuseAttempt() }
  }

  private func connect() {
    attempts -= 1
    let wire = Wire(dispatcher.connected(nowMilliseconds: now))
    wires.append(wire)
    if random.chance(9, in: 10) {
      wire.peer.announce(
        streams: random.pick([0, 1, 1, 2, 100, nil]), window: random.pick([nil, nil, 0, 1, 100]))
    }
  }

  private func refuseAttempt() {
    attempts -= 1
    dispatcher.connectFailed(
      "nobody there", isFinal: random.chance(1, in: 4), nowMilliseconds: now)
  }

  private func somePeer(_ body: (Wire) -> Void) {
    if !wires.isEmpty { body(random.pick(wires)) }
  }

  /// Moves bytes in both directions, as far as possible.
  private func move(_ wire: Wire, isAll: Bool = false) {
    guard !wire.isClosed else { return }
    let count = isAll ? Int.max : random.pick([1, 9, 30, 500, 100_000])
    let part = Array(wire.toPeer.prefix(count))
    wire.toPeer.removeFirst(part.count)
    wire.peer.receive(part)
    let answer = wire.peer.takeOutput(count)
    if !answer.isEmpty {
      let isGood = answer.withUnsafeBytes { wire.session.receive($0) }
      guard isGood else { return lose(wire) }
      dispatcher.progress(wire.session, nowMilliseconds: now)
    }
    if wire.peer.isCut { return lose(wire) }
    if wire.peer.isHalfClosed, wire.peer.output.isEmpty { lose(wire, isRead: true) }
  }

  /// The work of a driver at the end of a turn.
  private func turn() {
    let hasRung = bell.hasRung.withLock { hasRung in
      defer { hasRung = false }
      return hasRung
    }
    if hasRung { dispatcher.add(job, nowMilliseconds: now) }
    dispatcher.fill(nowMilliseconds: now)
    for wire in wires { flush(wire) }
    wires.removeAll { $0.isClosed }
    while dispatcher.wantsConnection(nowMilliseconds: now) { attempts += 1 }
    dispatcher.deliver()
  }

  private func flush(_ wire: Wire) {
    guard !wire.isClosed else { return }
    let session = wire.session
    if session.deathText != nil { return lose(wire) }
    // Output that the socket has no room for is not requested.
    if wire.toPeer.count < 20_000 {
      session.pendingOutput(into: &wire.toPeer, limit: wire.toPeer.count + 16_384)
    }
    guard session.isFinished || session.isDone, !session.wantsWrite else { return }
    if session.openCount > 0 { return lose(wire) }
    session.goodbye()
    session.pendingOutput(into: &wire.toPeer, limit: .max)
    wire.peer.receive(wire.toPeer)
    close(wire)
  }

  private func loseSome() {
    if !wires.isEmpty { lose(random.pick(wires)) }
  }

  /// The connection is lost. Bytes in flight to the service may still arrive, and have an effect.
  ///
  /// - Parameter isRead: Whether all of them arrive: the service has only sent its last output, and still reads.
  private func lose(_ wire: Wire, isRead: Bool = false) {
    guard !wire.isClosed else { return }
    if isRead {
      wire.peer.receive(wire.toPeer)
    } else if random.chance(1, in: 2) {
      wire.peer.receive(Array(wire.toPeer.prefix(random.below(wire.toPeer.count + 1))))
    }
    while let request = wire.peer.requests.first {
      wire.peer.perform(.ignore(isTaken: random.chance(1, in: 2)), on: request)
    }
    close(wire)
    dispatcher.lost(
      wire.session, "the wire was cut", isFinal: random.chance(1, in: 10), nowMilliseconds: now)
  }

  private func close(_ wire: Wire) {
    wire.isClosed = true
    for id in wire.peer.taken { takenCounts[id, default: 0] += 1 }
    if let complaint = wire.peer.complaint { broken.append("the service complains: \(complaint)") }
  }

  // MARK: The laws

  private func judge() {
    for id in sentIDs {
      let told = outcomes[id] ?? []
      let taken = takenCounts[id] ?? 0
      if told.count != 1 { broken.append("\(id) has \(told.count) outcomes: \(told)") }
      if taken > 1 { broken.append("\(id) was taken on \(taken) times") }
      switch told.first {
      case .accepted where taken != 1:
        broken.append("\(id) is called accepted, and was not taken on")
      case .rejected where taken > 0: broken.append("\(id) is called rejected, and was taken on")
      case .unknown(let cause, retryMayDuplicate: false) where taken > 0:
        broken.append("\(id) is called certainly not sent (\(cause)), and was taken on")
      default: break
      }
    }
    guard dispatcher.openCount > 0 else { return }
    broken.insert(
      "still open: \(dispatcher.queue.count) in the queue, \(dispatcher.delayed.count) delayed, "
        + "\(dispatcher.bulkJobs.map(\.waitingCount)) of bulk sends, "
        + "\((dispatcher.sessions + dispatcher.leaving).map(\.openCount)) on connections", at: 0)
  }
}

extension ScriptedWorld.Wire {
  /// A random action of a service.
  fileprivate func act(_ random: inout SeededRandom) {
    switch random.below(12) {
    case 0: peer.answerPings()
    case 1 where random.chance(1, in: 4):
      peer.announce(
        streams: random.pick([0, 1, 3, 50]), window: random.pick([nil, 0, 10, 65_535]))
    case 2, 3: peer.widenAll(by: random.pick([1, 100, 5000]))
    case 4 where random.chance(1, in: 10):
      peer.goAway(last: UInt32(random.below(Int(peer.highestStream) + 8)))
    case 5 where random.chance(1, in: 30): peer.halfClose()
    default:
      guard !peer.requests.isEmpty else { return }
      let request = random.pick(peer.requests)
      peer.perform(PeerAction.random(&random), on: request)
    }
  }

  /// Accepts everything as fast as it arrives.
  fileprivate func makeGood() {
    peer.announce(streams: 100, window: 65_535)
    peer.widenAll(by: 10_000)
    peer.answerPings()
    while let request = peer.requests.first {
      peer.perform(.accept(uniqueID: false, body: false), on: request)
    }
  }
}
