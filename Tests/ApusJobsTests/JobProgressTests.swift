import Testing

@testable import ApusJobs

@Suite("Progress of a job")
struct JobProgressTests {
  /// A reference, because expectations change nothing.
  private final class Bench {
    private(set) var progress: JobProgress

    init(_ outcomes: [UInt8], done: [Int] = []) {
      progress = JobProgress(outcomes: outcomes, done: done, window: 8)
    }

    func take(_ limit: Int, at milliseconds: Int64 = 0) -> [UInt32] {
      batch(limit, at: milliseconds).places
    }

    func batch(_ limit: Int, at milliseconds: Int64 = 0) -> JobProgress.Batch {
      progress.takeBatch(of: limit, nowMilliseconds: milliseconds)
    }

    func finish(
      _ places: [UInt32], _ outcome: GroupOutcome = .accepted, at milliseconds: Int64 = 0
    ) {
      progress.finish(
        places.map { PlacedOutcome(place: $0, outcome: outcome) }, nowMilliseconds: milliseconds)
    }

    func cancel() { progress.cancel() }

    func unwritten(at milliseconds: Int64 = 0) -> [UInt8] {
      progress.takeUnwritten(nowMilliseconds: milliseconds)
    }

    func giveBack(_ bytes: [UInt8], at milliseconds: Int64) {
      progress.giveBack(bytes, nowMilliseconds: milliseconds)
    }

    func end(at milliseconds: Int64 = 0) -> Bool {
      progress.takeEnd(nowMilliseconds: milliseconds)
    }
  }

  private func bench(_ count: Int) -> Bench { Bench([UInt8](repeating: 0, count: count)) }

  @Test("Devices are taken once, in order, as long as the window has room")
  func batches() {
    let bench = bench(10)
    #expect(bench.take(4) == [0, 1, 2, 3])
    #expect(bench.take(4) == [4, 5, 6, 7])
    #expect(bench.take(4) == [])
    bench.finish([0, 1, 2, 3])
    #expect(bench.take(4) == [8, 9])
    bench.finish([4, 5, 6, 7, 8, 9])
    #expect(bench.take(4) == [])
    #expect(bench.progress.counts == [.accepted: 10])
  }

  @Test("Devices with an outcome on disk, or with a trace, are left out")
  func resumed() {
    let bench = Bench([1, 0, 2, 0, 0], done: [3])
    #expect(bench.take(4) == [1, 4])
    #expect(bench.progress.counts == [.accepted: 2, .noApp: 1])
    // The trace is not on disk yet.
    #expect(bench.unwritten() == [0, 0, 0, 3, 1])
  }

  @Test("What the service cannot take is sent again after a second")
  func unavailable() {
    let bench = bench(4)
    _ = bench.take(2, at: 100)
    bench.finish([0, 1], .unavailable, at: 100)
    #expect(bench.progress.isWaiting && bench.progress.counts.isEmpty)
    #expect(bench.take(2, at: 1099) == [])
    #expect(bench.progress.retryMilliseconds == 1100)
    #expect(Set(bench.take(2, at: 1100)) == [0, 1])
    bench.finish([0, 1], at: 1100)
    #expect(!bench.progress.isWaiting && bench.progress.retryMilliseconds == nil)
    #expect(bench.take(4, at: 1100) == [2, 3])
  }

  @Test("Retries are batches of their own, because devices may have the notification already")
  func retries() {
    let bench = bench(6)
    #expect(!bench.batch(3).areRetries)
    bench.finish([0, 1, 2], .unavailable)
    let first = bench.batch(2, at: 1000)
    #expect(first.areRetries && Set(first.places) == [1, 2])
    #expect(bench.batch(2, at: 1000) == .init(places: [0], areRetries: true))
    #expect(bench.batch(2, at: 1000) == .init(places: [3, 4]))
    bench.finish([0], .unavailable, at: 1000)
    #expect(bench.batch(2, at: 2000) == .init(places: [0], areRetries: true))
    #expect(bench.batch(2, at: 2000) == .init(places: [5]))
  }

  @Test("A cancelled job sends nothing more and keeps what was sent")
  func cancelled() {
    let bench = bench(5)
    _ = bench.take(2)
    bench.cancel()
    #expect(bench.take(2) == [])
    #expect(bench.progress.counts == [.cancelled: 3])
    bench.finish([0])
    bench.finish([1], .unavailable)
    #expect(bench.progress.counts == [.cancelled: 4, .accepted: 1])
    _ = bench.unwritten()
    #expect(bench.end())
  }

  @Test("The end comes once, after the last outcome is on disk; what the disk refuses comes again")
  func end() {
    let bench = bench(1)
    _ = bench.take(2)
    #expect(!bench.end())
    bench.finish([0], .tooMany)
    #expect(!bench.end())
    let bytes = bench.unwritten()
    #expect(bytes == [0, 0, 0, 0, 4])
    bench.giveBack(bytes, at: 0)
    #expect(bench.unwritten(at: 999) == [] && !bench.progress.isWritten)
    #expect(bench.progress.rewriteMilliseconds == 1000)
    #expect(bench.unwritten(at: 1000) == bytes)
    #expect(bench.end(at: 1000))
    #expect(!bench.end(at: 1000))
    bench.giveBack([], at: 1000)
    #expect(!bench.end(at: 1500))
    #expect(bench.end(at: 2000))
  }
}
