import ApusRandom
import ApusLoop
import Glibc

/// The service's machine: its clocks, its sockets, and the processor time of its loops.
final class SimulatedHost: SimulatedSystem {
  let timeline: Timeline
  private var random: SeededRandom
  private var links: [Int32: SimulatedLink] = [:]

  /// Switched off: nothing is answered, not even with a reset.
  var isOff = false

  // Clocks.
  /// Simulated time of the last boot, at which the monotonic clock starts.
  private var bootMicroseconds: UInt64 = 0
  /// How fast the clock is, in millionths.
  var driftMillionths: Int64 = 0
  private var wallOffsetMilliseconds: Int64 = 0
  /// Unix milliseconds at the start of every simulation.
  static let epochMilliseconds: Int64 = 1_800_000_000_000

  // Loops.
  private var loops: [EventLoop] = []
  private var planned: [UInt64] = []
  /// Counts processes: turns planned for an earlier one are skipped.
  private(set) var generation = 0
  private(set) var turnCount = 0
  /// The process is stalled until then.
  var stalledUntil: UInt64 = 0
  /// Called after every turn.
  var afterTurn: (() -> Void)?

  init(_ timeline: Timeline, random: SeededRandom) {
    self.timeline = timeline
    self.random = random
  }

  // MARK: Clocks

  var monotonicMilliseconds: UInt64 {
    let since = Int64(timeline.now - bootMicroseconds)
    return UInt64(1_000 + (since + since / 1_000_000 * driftMillionths) / 1_000)
  }

  var turnAgeMilliseconds: UInt64 {
    random.chance(1, in: 50) ? random.between(10, 100) : random.between(0, 2)
  }

  var wallClockMilliseconds: Int64 {
    let since = Int64(timeline.now)
    return Self.epochMilliseconds + wallOffsetMilliseconds
      + (since + since / 1_000_000 * driftMillionths) / 1_000
  }

  /// The wall clock is set.
  func setWallClock(byMilliseconds milliseconds: Int64) {
    wallOffsetMilliseconds += milliseconds
  }

  /// Resets the wall clock to the real time.
  func correctWallClock() {
    let since = Int64(timeline.now)
    wallOffsetMilliseconds = -(since / 1_000_000 * driftMillionths) / 1_000
  }

  func boot() {
    bootMicroseconds = timeline.now
    isOff = false
  }

  // MARK: Turns

  /// The loops of a new process replace the earlier ones.
  func run(_ loops: [EventLoop]) {
    generation += 1
    self.loops = loops
    planned = Array(repeating: .max, count: loops.count)
    for index in loops.indices { plan(index, at: timeline.now) }
  }

  func wake(_ loop: EventLoop) {
    guard let index = loops.firstIndex(where: { $0 === loop }) else { return }
    let late = random.chance(1, in: 2000) ? random.between(1_000, 80_000) : random.between(5, 60)
    plan(index, at: timeline.now + late)
  }

  private func plan(_ index: Int, at time: UInt64) {
    let time = max(time, stalledUntil)
    guard time < planned[index] else { return }
    planned[index] = time
    let generation = generation
    timeline.at(time) { [self] in
      guard generation == self.generation, planned[index] == time else { return }
      planned[index] = .max
      guard timeline.now >= stalledUntil else { return plan(index, at: stalledUntil) }
      turn(index)
    }
  }

  private func turn(_ index: Int) {
    let loop = loops[index]
    let generation = generation
    turnCount += 1
    let mustGoOn = loop.takeTurn()
    guard generation == self.generation else { return }
    afterTurn?()
    guard generation == self.generation else { return }
    if mustGoOn {
      plan(index, at: timeline.now + random.between(5, 60))
    } else if let due = loop.nextTimerMilliseconds {
      let now = monotonicMilliseconds
      plan(index, at: timeline.now + (due > now ? (due - now) * 1_000 : 1))
    }
  }

  // MARK: Sockets

  func attach(_ link: SimulatedLink) { links[link.descriptor] = link }
  func forget(_ link: SimulatedLink) { links[link.descriptor] = nil }
  func link(_ descriptor: Int32) -> SimulatedLink? { links[descriptor] }

  func adopted(_ descriptor: Int32, by loop: EventLoop) { links[descriptor]?.loop = loop }
  func isReadable(_ descriptor: Int32) -> Bool { links[descriptor]?.isReadable ?? true }
  func isWritable(_ descriptor: Int32) -> Bool { links[descriptor]?.isWritable ?? true }

  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    guard let link = links[descriptor] else { return .failed(EBADF) }
    return unsafe link.read(into: buffer)
  }

  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult {
    guard let link = links[descriptor] else { return .failed(EBADF) }
    return unsafe link.write(bytes)
  }

  func shutdownWrite(_ descriptor: Int32) { links[descriptor]?.shutdownWriteOfService() }

  func close(_ descriptor: Int32, resets: Bool) {
    links[descriptor]?.closeService(resets: resets)
  }

  /// For a canary.
  var callsAllTaken = false

  func unacknowledgedByteCount(_ descriptor: Int32) -> Int? {
    callsAllTaken ? 0 : links[descriptor]?.unacknowledgedByteCount
  }
}
