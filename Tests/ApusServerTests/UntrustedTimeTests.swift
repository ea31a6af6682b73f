import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import ApusWire
import Synchronization
import Testing

@testable import ApusDirectory
@testable import ApusEnrolment
@testable import ApusServer

/// How long a peer that has proved nothing may take, to the millisecond: the clock is the test's.
@Suite("Times of untrusted peers")
struct UntrustedTimeTests {
  enum Peer: Sendable, CaseIterable {
    case silent
    /// Sends its first flight, and never the second.
    case halfway
    /// Sends a byte of its first flight each second.
    case slow
  }

  @Test("A TLS handshake may take 10 seconds, and ends then", arguments: Peer.allCases)
  func handshake(peer: Peer) throws {
    let bench = try SteppedBench(.provider)
    let hello = try bench.clientHello()
    let descriptor = bench.connect()
    if peer == .halfway {
      bench.send(hello, on: descriptor)
      #expect(bench.isAnswered(descriptor))
    }
    for second in 0..<UInt64(Limits.handshakeSeconds) {
      bench.advance(toMilliseconds: second * 1000)
      if peer == .slow { bench.send([hello[Int(second)]], on: descriptor) }
    }
    bench.advance(toMilliseconds: 9_999)
    #expect(!bench.isClosed(descriptor))
    bench.advance(toMilliseconds: 10_000)
    #expect(bench.isClosed(descriptor))
    #expect(bench.worker.connections.count == 0)
  }

  /// Of 2,000 places for an acceptor, 4 of 5 are for one address: 1,600.
  @Test("1,600 handshakes of one address may wait for their peers; then the oldest ends after 4 s")
  func halfOpen() throws {
    let bench = try SteppedBench(.provider)
    let hello = try bench.clientHello()
    func begin() -> Int32 {
      let descriptor = bench.connect()
      bench.send(hello, on: descriptor)
      return descriptor
    }
    let first = begin()
    bench.advance(toMilliseconds: 500)
    let others = (1..<1600).map { _ in begin() }
    #expect(others.allSatisfy(bench.isAnswered))
    let (late, later) = (begin(), begin())
    bench.advance(toMilliseconds: 3_999)
    #expect(!bench.isAnswered(late) && !bench.isAnswered(later))
    #expect(bench.worker.connections.count == 1602)
    bench.advance(toMilliseconds: 4_000)
    #expect(bench.isClosed(first) && bench.isAnswered(late) && !bench.isAnswered(later))
    // The next ones began half a second later.
    bench.advance(toMilliseconds: 4_499)
    #expect(!others.contains(where: bench.isClosed) && !bench.isAnswered(later))
    bench.advance(toMilliseconds: 4_500)
    #expect(others.filter(bench.isClosed) == [others[0]] && bench.isAnswered(later))
    #expect(bench.worker.connections.count == 1600)
  }

  /// Of 2,000 places for an acceptor, 16 of 17 are for one environment: 1,883.
  @Test("Beyond 1,883 handshakes of an environment, those of the address that has most make room")
  func halfOpenOfEnvironment() throws {
    let bench = try SteppedBench(.provider)
    let hello = try bench.clientHello()
    func begin(_ address: String) throws -> Int32 {
      let descriptor = bench.connect(from: try SocketAddress(address))
      bench.send(hello, on: descriptor)
      return descriptor
    }
    // The good peers begin first, so theirs are the oldest.
    let good = try (1...83).map { try begin("10.1.0.\($0):1") }
    let greedy = try (0..<1800).map { try begin("10.2.0.\($0 % 6):1") }
    #expect((good + greedy).allSatisfy(bench.isAnswered))
    let late = try begin("10.3.0.1:1")
    #expect(!bench.isAnswered(late))
    bench.advance(toMilliseconds: 4_000)
    #expect(bench.isAnswered(late))
    #expect(greedy.filter(bench.isClosed).count == 1 && !good.contains(where: bench.isClosed))
  }

  @Test("A device has 10 seconds from the handshake to its first frame")
  func firstFrame() throws {
    let bench = try SteppedBench(.courier)
    let device = try SteppedClient(
      bench, protocols: [TestService.courierProtocol],
      identity: bench.directory.device().identity)
    // Half a frame is none.
    try device.send([0x07, 0])
    bench.advance(toMilliseconds: 9_999)
    try device.receive()
    #expect(device.plaintext == [] && !device.isEnded)
    bench.advance(toMilliseconds: 10_000)
    try device.receive()
    #expect(device.isEnded)
  }

  @Test("A device without a certificate waits 30 seconds for the answer to its request")
  func enrolment() throws {
    let directory = try TestDirectory()
    // One whose thread never runs.
    let queue = EnrolmentQueue(
      directory.data, .all, days: 1, AuditLog(path: nil),
      log: ServerConfiguration(
        dataDirectory: directory.data.path, listeners: []
      ).log)
    let bench = try SteppedBench(.courier, directory, enrolment: queue)
    let device = try SteppedClient(bench, protocols: [TestService.courierProtocol])
    bench.advance(toMilliseconds: 5_000)
    let request = RawCourierFrame(0x81, (0x41, [0x30, 0]), (0x42, Array("phone".utf8)))
    try device.send(request.bytes)
    bench.advance(toMilliseconds: 34_999)
    try device.receive()
    #expect(device.plaintext == [] && !device.isEnded)
    bench.advance(toMilliseconds: 35_000)
    try device.receive()
    // The goodbye.
    #expect(device.plaintext.first == 0x80 && device.isEnded)
  }
}

/// How much the thread that decides on certificates takes on.
@Suite("Limits of enrolment")
struct EnrolmentLimitTests {
  private let directory: TestDirectory
  private let queue: EnrolmentQueue
  private let trust: Trust

  init() throws {
    directory = try TestDirectory()
    let configuration = ServerConfiguration(dataDirectory: directory.data.path, listeners: [])
    queue = EnrolmentQueue(
      directory.data, .all, days: 1, AuditLog(path: nil), log: configuration.log)
    trust = try directory.data.trust(generation: 1, allowsES512: false)
  }

  /// Sends a request from an address of its own, which is refused once it is decided on.
  private func submit(_ answers: Answers, number: Int, atMilliseconds now: Int64) throws {
    let query = EnrolmentQuery(
      kind: .enrolment(code: [], name: []), certificateRequest: [0x30, 0],
      site: try SocketAddress("10.0.\(number / 200).\(number % 200):1").site, trust: trust,
      nowSeconds: TestDirectory.nowSeconds)
    queue.submit(query, atMilliseconds: now) { answers.append($0.reason) }
  }

  @Test("256 requests may wait; one more is told to come again")
  func waiting() throws {
    let answers = Answers()
    for number in 0..<256 { try submit(answers, number: number, atMilliseconds: 0) }
    #expect(answers.all.isEmpty)
    try submit(answers, number: 256, atMilliseconds: 0)
    #expect(answers.all == [.tooMany])
  }

  @Test("500 requests are taken at once, and 50 in each further second")
  func rate() throws {
    queue.start()
    defer { queue.stop() }
    let answers = Answers()
    var number = 0
    /// Answers to so many more requests.
    func refusals(_ count: Int, atMilliseconds now: Int64) throws -> Int {
      let before = answers.all.count
      for index in 1...count {
        number += 1
        try submit(answers, number: number, atMilliseconds: now)
        // Well below the number that may wait.
        try waitUntil("the answer") { answers.all.count == before + index }
      }
      return answers.all[before...].count { $0 == .tooMany }
    }
    #expect(try refusals(500, atMilliseconds: 0) == 0)
    #expect(try refusals(1, atMilliseconds: 0) == 1)
    #expect(try refusals(51, atMilliseconds: 1000) == 1)
  }
}

/// The reasons of the answers so far.
private final class Answers: Sendable {
  private let reasons = Mutex<[CourierIssuance.Reason?]>([])

  var all: [CourierIssuance.Reason?] { reasons.withLock { $0 } }
  func append(_ reason: CourierIssuance.Reason?) { reasons.withLock { $0.append(reason) } }
}
