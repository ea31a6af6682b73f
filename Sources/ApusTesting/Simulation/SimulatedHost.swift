import ApusRandom
import ApusLoop
import Glibc

/// A machine's end of a connection.
protocol SimulatedEnd: AnyObject {
  var descriptor: Int32 { get }
  /// Nil until the program watches it.
  var loop: EventLoop? { get set }
  var isReadable: Bool { get }
  var isWritable: Bool { get }
  /// The `errno` of connecting, 0 for success.
  var connectError: Int32 { get }
  var unacknowledgedByteCount: Int { get }
  var userTimeoutMilliseconds: UInt64 { get set }
  func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
  func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
  func shutdownWrite()
  func close(resets: Bool)
}

/// A machine of the service: its clocks, its sockets, and the processor time of its loops.
final class SimulatedHost: SimulatedSystem {
  let timeline: Timeline
  let clock: SimulatedClock
  private var random: SeededRandom
  private var ends: [Int32: any SimulatedEnd] = [:]

  /// Switched off: nothing is answered, not even with a reset.
  var isOff = false

  /// Simulated time of the last boot, at which the monotonic clock starts.
  private var bootMicroseconds: UInt64 = 0

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
  /// Connects to another machine of the service.
  var onConnect: (SocketAddress) -> any SimulatedEnd = { _ in
    preconditionFailure("this world has one machine")
  }

  init(_ clock: SimulatedClock, random: SeededRandom) {
    timeline = clock.timeline
    self.clock = clock
    self.random = random
  }

  // MARK: Clocks

  var monotonicMilliseconds: UInt64 {
    let since = Int64(timeline.now - bootMicroseconds)
    return UInt64(1_000 + clock.drifted(since) / 1_000)
  }

  var turnAgeMilliseconds: UInt64 {
    random.chance(1, in: 50) ? random.between(10, 100) : random.between(0, 2)
  }

  var wallClockMilliseconds: Int64 { clock.wallMilliseconds }

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

  func attach(_ end: any SimulatedEnd) { ends[end.descriptor] = end }
  func forget(_ descriptor: Int32) { ends[descriptor] = nil }

  func connect(to address: SocketAddress) -> Int32 {
    let end = onConnect(address)
    attach(end)
    return end.descriptor
  }

  func connectError(_ descriptor: Int32) -> Int32 { ends[descriptor]?.connectError ?? EBADF }
  func setUserTimeout(_ descriptor: Int32, milliseconds: Int) {
    ends[descriptor]?.userTimeoutMilliseconds = UInt64(milliseconds)
  }
  func adopted(_ descriptor: Int32, by loop: EventLoop) { ends[descriptor]?.loop = loop }
  func isReadable(_ descriptor: Int32) -> Bool { ends[descriptor]?.isReadable ?? true }
  func isWritable(_ descriptor: Int32) -> Bool { ends[descriptor]?.isWritable ?? true }

  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    guard let end = ends[descriptor] else { return .failed(EBADF) }
    return unsafe end.read(into: buffer)
  }

  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult {
    guard let end = ends[descriptor] else { return .failed(EBADF) }
    return unsafe end.write(bytes)
  }

  func shutdownWrite(_ descriptor: Int32) { ends[descriptor]?.shutdownWrite() }

  func close(_ descriptor: Int32, resets: Bool) { ends[descriptor]?.close(resets: resets) }

  /// For a canary.
  var callsAllTaken = false

  func unacknowledgedByteCount(_ descriptor: Int32) -> Int? {
    callsAllTaken ? 0 : ends[descriptor]?.unacknowledgedByteCount
  }
}
