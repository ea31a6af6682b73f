import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusThread
import Foundation
import Testing

@testable import ApusJobs

/// A service that notes what it is given, and answers when it is told to.
private final class FakeService: GroupPushing {
  struct State {
    var batches: [GroupBatch] = []
    var open: [@Sendable () -> Void] = []
    var answers = true
    var outcome: GroupOutcome = .accepted
  }

  let state = Monitor(State())

  func send(_ batch: GroupBatch, _ done: @escaping @Sendable ([PlacedOutcome]) -> Void) {
    let outcome = state.withLock { $0.outcome }
    let answer: @Sendable () -> Void = {
      done(batch.places.map { PlacedOutcome(place: $0, outcome: outcome) })
    }
    let answers = state.notify { state in
      state.batches.append(batch)
      if !state.answers { state.open.append(answer) }
      return state.answers
    }
    if answers { answer() }
  }

  var devices: [DeviceID] { state.withLock { $0.batches.flatMap(\.devices) } }
}

@Suite("Jobs", .timeLimit(.minutes(5)))
struct JobServiceTests {
  private let folder: URL
  private let directory: DataDirectory
  private let service = FakeService()

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "jobs-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    directory = DataDirectory(path: folder.path())
  }

  private func open(_ store: MemoryStore = MemoryStore()) -> JobService {
    let jobs = JobService(directory, log: Log(minimumLevel: .error, sink: { _ in }))
    jobs.load(store, journaled: [])
    return jobs
  }

  private func job(_ count: Int, low: UInt64 = 0, key: String? = nil, request: String = "r")
    -> PushJob
  {
    PushJob(
      id: NotificationID(high: 7, low: 0x8000_0000_0000_0000 | (low + 1) << 32),
      createdMilliseconds: Int64(Date.now.timeIntervalSince1970 * 1000), actor: "uid 0",
      selector: "all devices",
      push: GroupPush(environment: .production, payload: Array(#"{"aps":{}}"#.utf8)),
      idempotency: key.map { PushJob.Idempotency(key: $0, request: request) }, deviceCount: count)
  }

  private func devices(_ count: Int) -> [DeviceID] { (1...UInt64(count)).map(DeviceID.init) }

  private func awaitEnd(_ jobs: JobService, _ id: NotificationID) throws -> JobService.Facts {
    for _ in 0..<2000 {
      if let facts = jobs.facts(of: id), facts.endedMilliseconds != nil { return facts }
      usleep(5000)
    }
    throw CancellationError()
  }

  @Test("Each device is sent to once, and the outcome is on disk")
  func whole() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    jobs.start(service)
    let job = job(1000)
    let (accepted, isNew) = try jobs.submit(job, to: devices(1000))
    #expect(isNew && accepted.job == job)
    let end = try awaitEnd(jobs, job.id)
    #expect(end.counts == [.accepted: 1000])
    #expect(service.devices.sorted { $0.rawValue < $1.rawValue } == devices(1000))
    #expect(service.state.withLock { $0.batches.allSatisfy { !$0.mayBeRepeated } })
    let results = try #require(try jobs.results(of: job.id))
    #expect(results.devices == devices(1000))
    #expect(results.outcomes.allSatisfy { $0 == .accepted })
    jobs.stop()
    // Another process knows it, and sends nothing.
    let later = open()
    #expect(later.facts().map(\.job) == [job] && later.facts()[0].counts == [.accepted: 1000])
  }

  @Test("The files of a job have the documented form")
  func files() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    service.state.withLock { $0.outcome = .noApp }
    jobs.start(service)
    let job = job(2)
    _ = try jobs.submit(
      job, to: [DeviceID(0x0102_0304_0506_0708), DeviceID(0xff00_0000_0000_0001)])
    _ = try awaitEnd(jobs, job.id)
    let base = "\(directory.path)/jobs/\(job.id.text)"
    func bytes(_ kind: String) throws -> [UInt8] {
      Array(try Data(contentsOf: URL(filePath: "\(base).\(kind)")))
    }
    #expect(job.id.text == "00000000-0000-0007-8000-000100000000")
    #expect(try bytes("devices") == [1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0, 0, 0, 0, 0, 0, 1])
    #expect(try bytes("results") == [0, 0, 0, 0, 2, 0, 0, 0, 1, 2])
    #expect(
      try String(decoding: bytes("job"), as: UTF8.self).contains(#""payload":"{\"aps\":{}}""#))
    #expect(try String(decoding: bytes("end"), as: UTF8.self).contains(#""no_app":2"#))
  }

  @Test("A repeated request gets the same job, another request with its key is refused")
  func idempotency() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    jobs.start(service)
    let first = job(3, key: "k")
    _ = try jobs.submit(first, to: devices(3))
    let again = try jobs.submit(job(3, low: 1, key: "k"), to: devices(3))
    #expect(!again.isNew && again.facts.job.id == first.id)
    #expect(throws: JobService.Refusal.self) {
      _ = try jobs.submit(job(3, low: 2, key: "k", request: "other"), to: devices(3))
    }
    _ = try awaitEnd(jobs, first.id)
    jobs.stop()
    let later = open()
    later.start(service)
    #expect(try !later.submit(job(3, low: 3, key: "k"), to: devices(3)).isNew)
    #expect(service.devices.count == 3)
    later.stop()
  }

  @Test("After a kill the rest is sent, marked as possibly repeated")
  func killed() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    service.state.withLock { $0.answers = false }
    jobs.start(service)
    let job = job(6000)
    _ = try jobs.submit(job, to: devices(6000))
    // The first batch is answered, the others are on their way when the process dies.
    let first = service.state.wait { state in
      state.open.count >= 2 ? .found(state.open[0]) : .wait(untilMilliseconds: nil)
    }
    first()
    let results = URL(filePath: "\(directory.path)/jobs/\(job.id.text).results")
    for _ in 0..<2000 where (try? Data(contentsOf: results).count) ?? 0 < 256 * 5 { usleep(5000) }
    // Half a record is left of the last write.
    let file = try FileHandle(forWritingTo: results)
    try file.seekToEnd()
    try file.write(contentsOf: Data([0, 0]))
    try file.close()

    let second = FakeService()
    let later = open()
    #expect(later.facts()[0].doneCount == 256)
    later.start(second)
    let end = try awaitEnd(later, job.id)
    #expect(end.counts == [.accepted: 6000])
    #expect(Set(second.devices) == Set(devices(6000).dropFirst(256)))
    #expect(second.devices.count == 6000 - 256)
    #expect(second.state.withLock { $0.batches.allSatisfy(\.mayBeRepeated) })
    #expect(try Data(contentsOf: results).count == 6000 * 5)
    later.stop()
  }

  @Test("A cancelled job sends nothing more, and a job that waits for the store goes on")
  func cancelled() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    service.state.withLock { $0.outcome = .unavailable }
    jobs.start(service)
    let (first, second) = (job(5000), job(2, low: 1))
    _ = try jobs.submit(first, to: devices(5000))
    _ = try jobs.submit(second, to: devices(2))
    for _ in 0..<2000 where jobs.facts().contains(where: { !$0.isWaiting }) { usleep(5000) }
    _ = try #require(jobs.cancel(first.id))
    service.state.withLock { $0.outcome = .accepted }
    #expect(try awaitEnd(jobs, first.id).counts == [.cancelled: 5000])
    #expect(try awaitEnd(jobs, second.id).counts == [.accepted: 2])
    #expect(jobs.cancel(first.id) == nil)
    jobs.stop()
  }

  @Test("A job whose files are damaged harms no other", arguments: ["job", "devices"])
  func damaged(kind: String) throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let jobs = open()
    service.state.withLock { $0.answers = false }
    jobs.start(service)
    let (first, second) = (job(3), job(3, low: 1))
    _ = try jobs.submit(first, to: devices(3))
    _ = try jobs.submit(second, to: devices(3))
    let file = URL(filePath: "\(directory.path)/jobs/\(first.id.text).\(kind)")
    try Data(contentsOf: file).dropLast(5).write(to: file)
    let later = open()
    #expect(later.facts().map(\.job.id) == [second.id])
    later.start(FakeService())
    #expect(try awaitEnd(later, second.id).counts == [.accepted: 3])
    later.stop()
  }

  @Test("A job that cannot be written is not accepted")
  func unwritable() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    try Data().write(to: URL(filePath: "\(directory.path)/jobs"))
    let jobs = open()
    jobs.start(service)
    #expect(throws: JobService.Refusal.self) { _ = try jobs.submit(job(1), to: devices(1)) }
    #expect(jobs.facts().isEmpty)
    jobs.stop()
  }
}
