import ApusModel
import Synchronization
import Testing

@testable import ApusClient

/// Numbered pushes in sequence, counting how many were requested.
private struct Pushes: AsyncSequence, Sendable {
  let count: Int
  let read: Counter
  var failsAtEnd = false
  var badEvery = Int.max

  final class Counter: Sendable {
    private let value = Mutex(0)
    var count: Int { value.withLock { $0 } }
    func add() { value.withLock { $0 += 1 } }
  }

  struct Broken: Error {}

  struct Iterator: AsyncIteratorProtocol {
    let pushes: Pushes
    var next = 0

    mutating func next() async throws -> PushRequest? {
      guard next < pushes.count else {
        if pushes.failsAtEnd { throw Broken() }
        return nil
      }
      next += 1
      pushes.read.add()
      var request = PushRequest(
        token: next % pushes.badEvery == 0 ? "0" : "0a0b", topic: "com.example.app",
        payload: AlertPayload(body: "x").bytes)
      request.id = Bench.id(UInt64(next))
      return request
    }
  }

  func makeAsyncIterator() -> Iterator { Iterator(pushes: self) }
}

@Suite("Bulk sends", .timeLimit(.minutes(30)))
struct BulkTests {
  @Test("Each push has one outcome, even an invalid one", arguments: [1, 7, 8192])
  func all(capacity: Int) async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    // With a capacity of one, each push waits for its turn among all running tests.
    let count = capacity == 1 ? 300 : 3000
    let pushes = Pushes(count: count, read: .init(), badEvery: 100)
    var seen: Set<Int> = []
    var taken = 0
    for try await outcome in client.send(all: pushes, capacity: capacity) {
      #expect(seen.insert(outcome.index).inserted)
      #expect(outcome.apnsID == Bench.id(UInt64(outcome.index + 1)))
      taken += 1
      #expect(pushes.read.count <= taken + capacity, "read no further ahead than allowed")
      switch outcome.result {
      case .success(let sent):
        #expect(sent == .accepted(apnsID: outcome.apnsID, uniqueID: nil))
        #expect((outcome.index + 1) % 100 != 0)
      case .failure(let error):
        #expect(error.code == .invalidToken)
        #expect((outcome.index + 1) % 100 == 0)
      }
    }
    #expect(seen.count == count)
    await client.close()
    let ids = service.seen.joined()
    #expect(ids.count == count / 100 * 99)
    #expect(Set(ids).count == ids.count)
  }

  @Test("Pushes of an array are sent like those of a stream", arguments: [1, 8192])
  func array(capacity: Int) async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    let pushes = (1...300).map { number in
      var request = PushRequest(
        token: number == 7 ? "0" : "0a0b", topic: nil, payload: AlertPayload(body: "x").bytes)
      request.id = Bench.id(UInt64(number))
      return request
    }
    var results: [Int: Result<SendOutcome, PushRequestError>] = [:]
    for await outcome in client.send(all: pushes, capacity: capacity) {
      #expect(results.updateValue(outcome.result, forKey: outcome.index) == nil)
    }
    #expect(results.count == 300)
    for (index, push) in pushes.enumerated() {
      switch results[index] {
      case .success(.accepted(let id, _)): #expect(id == push.id)
      case .failure(let error): #expect(error.code == .invalidToken && index == 6)
      default: Issue.record("push \(index): \(String(describing: results[index]))")
      }
    }
    await client.close()
  }

  @Test("An error of the sequence follows the outcomes of all earlier pushes")
  func sequenceFails() async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    var count = 0
    await #expect(throws: Pushes.Broken.self) {
      for try await outcome in client.send(
        all: Pushes(count: 10, read: .init(), failsAtEnd: true))
      {
        #expect(
          outcome.result == .success(.accepted(apnsID: outcome.apnsID, uniqueID: nil)))
        count += 1
      }
    }
    #expect(count == 10)
    await client.close()
  }

  @Test("Concurrent bulk sends and single sends share the client")
  func several() async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    let counts = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<3 {
        group.addTask {
          var count = 0
          for try await outcome in client.send(
            all: Pushes(count: 500, read: .init()), capacity: 50)
          {
            if case .success(.accepted) = outcome.result { count += 1 }
          }
          return count
        }
      }
      group.addTask {
        var request = PushRequest(
          token: "0a0b", topic: nil, payload: AlertPayload(body: "x").bytes)
        request.id = Bench.id(1)
        guard case .accepted = try await client.send(request) else { return 0 }
        return 1
      }
      return try await group.reduce(0, +)
    }
    #expect(counts == 1501)
    await client.close()
  }

  @Test("A cancelled bulk send starts no further pushes, and every started push has an outcome")
  func cancelled() async throws {
    // Answers only the first request.
    let service = try ScriptedService([
      [.accept] + [ScriptedService.Action](repeating: .ignore, count: 200)
    ])
    let client = try service.client()
    let pushes = Pushes(count: 1000, read: .init())
    let (started, starter) = AsyncStream<Void>.makeStream()
    let task = Task {
      var outcomes: [BulkOutcome] = []
      for try await outcome in client.send(all: pushes, capacity: 20) {
        outcomes.append(outcome)
        starter.yield()
      }
      return outcomes
    }
    for await _ in started { break }
    task.cancel()
    let outcomes = try await task.value
    #expect(Set(outcomes.map(\.index)).count == outcomes.count)
    #expect(pushes.read.count <= 21)
    for outcome in outcomes where outcome.index > 0 {
      guard case .success(.unknown(let cause, _)) = outcome.result else {
        Issue.record("\(outcome.result)")
        continue
      }
      #expect(cause.code == .cancelled)
    }
    client.closeImmediately()
  }

  @Test("If the outcomes are no longer read, sending stops")
  func abandoned() async throws {
    let service = try ScriptedService([])
    let client = try service.client()
    let pushes = Pushes(count: 100_000, read: .init())
    for try await _ in client.send(all: pushes, capacity: 10) { break }
    // Closing waits only for pending pushes.
    await client.close()
    #expect(pushes.read.count < 100_000)
  }

  @Test("Closing the client ends the sequence, and every started push has an outcome")
  func closed() async throws {
    let service = try ScriptedService([[.accept, .ignore]])
    let client = try service.client()
    let pushes = Pushes(count: 1000, read: .init())
    var indices: Set<Int> = []
    for try await outcome in client.send(all: pushes, capacity: 10) {
      indices.insert(outcome.index)
      if indices.count == 1 { client.closeImmediately() }
    }
    #expect(indices.count < 1000)
    #expect(indices == Set(0..<indices.count))
    for try await outcome in client.send(all: pushes) {
      #expect(
        outcome.result
          == .success(.unknown(UnknownCause(.clientClosed), retryMayDuplicate: false)))
    }
  }
}
