import ApusCore
import ApusModel
import Synchronization
import Testing

@testable import ApusClient

@Suite("Sends for a relay", .timeLimit(.minutes(30)))
struct RelayedSendsTests {
  private static func notification(_ number: UInt64) -> RelayedNotification {
    RelayedNotification(
      id: Bench.id(number), topic: TopicKey(app: AppID(1)), environment: .production,
      token: [0x0a, 0x0b], payload: Array(#"{"aps":{}}"#.utf8))
  }

  private static let bundleID = Array("com.example.app".utf8)

  /// Puts notifications in while there is room, and takes answers until each has one.
  private func answers(
    _ numbers: ClosedRange<UInt64>, through client: APNSClient, capacity: Int
  ) async -> [UInt64: UpstreamAnswer] {
    let (wakes, continuation) = AsyncStream.makeStream(of: Void.self)
    let sends = RelayedSends(client, to: Self.bundleID, capacity: capacity) { _ in
      continuation.yield()
    }
    var (next, answers) = (numbers.lowerBound, [UInt64: UpstreamAnswer]())
    func fill() {
      while next <= numbers.upperBound,
        sends.put(Self.notification(next), tag: next, nowMilliseconds: .max / 2)
      {
        next += 1
      }
      sends.flush()
    }
    fill()
    for await _ in wakes {
      sends.takeAnswers { tag, answer in
        #expect(answers.updateValue(answer, forKey: tag) == nil, "\(tag) was answered twice")
      }
      fill()
      #expect(sends.openCount <= capacity)
      if answers.count == numbers.count || sends.openCount == 0 { break }
    }
    return answers
  }

  @Test("Each notification is sent once, and has one answer", arguments: [1, 7, 4000])
  func all(capacity: Int) async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    let answers = await answers(1...300, through: client, capacity: capacity)
    #expect(answers.count == 300)
    #expect(answers.values.allSatisfy { $0 == .accepted(uniqueID: nil) })
    await client.close()
    let ids = service.seen.joined()
    #expect(ids.count == 300)
    #expect(Set(ids).count == 300)
  }

  @Test("A closed client answers that they have not arrived")
  func closed() async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    client.closeImmediately()
    let answers = await answers(1...10, through: client, capacity: 4)
    #expect(!answers.isEmpty)
    #expect(answers.values.allSatisfy { $0 == .unknown(mayHaveArrived: false) })
  }

  @Test("The loop forgets them while it has none, and ends those that wait for too long")
  func overdue() throws {
    let bench = Bench()
    let job = BulkJob(capacity: 3, timeoutMilliseconds: 20_000, isEndless: true) { _ in true }
    var (vacant, filled, read) = ([BulkPush](), [BulkPush](), [BulkPush]())
    for deadline: UInt64 in [5000, 6000] {
      guard case .some = job.vacancies(&vacant) else { throw Full() }
      let push = vacant.removeLast()
      push.send.deadlineMilliseconds = deadline
      filled.append(push)
    }
    job.submit(&filled)
    bench.dispatcher.add(job, nowMilliseconds: 1000)
    for (now, open) in [(UInt64(4999), 2), (5000, 1), (6000, 0)] {
      bench.dispatcher.tick(nowMilliseconds: now)
      bench.dispatcher.deliver()
      #expect(job.waitingCount == open)
      #expect(bench.dispatcher.bulkJobs.isEmpty == (open == 0))
    }
    guard case .some = job.exchange(&read) else { throw Full() }
    #expect(read.count == 2)
    for push in read {
      guard case .success(.unknown(let cause, retryMayDuplicate: false)) = push.send.result else {
        Issue.record("not ended as unknown")
        continue
      }
      #expect(cause.code == .timedOut)
    }
    _ = job.exchange(&read)
    // The next one wakes the loop again.
    guard case .some = job.vacancies(&vacant) else { throw Full() }
    job.submit(&vacant)
    bench.dispatcher.add(job, nowMilliseconds: 7000)
    #expect(bench.dispatcher.bulkJobs.count == 1)
    #expect(bench.dispatcher.nextPush() != nil)
    job.cancel()
  }

  private struct Full: Error {}
}
