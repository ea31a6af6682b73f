import Foundation
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct InboxTests {
  @Test("Elements queued before the loop looks come as one batch, up to the capacity")
  func capacityAndBatch() async throws {
    let loop = EventLoop(name: "batch")
    let (stream, continuation) = AsyncStream.makeStream(of: [Int].self)
    let inbox = Inbox<Int>(loop: loop, capacity: 3) { continuation.yield($0) }
    #expect(inbox.send(1))
    #expect(inbox.send(2))
    #expect(inbox.count == 2)
    #expect(inbox.send(3))
    #expect(!inbox.send(4))
    loop.start()
    #expect(await stream.first(1) == [[1, 2, 3]])
    #expect(inbox.send(5))
    #expect(await stream.first(1) == [[5]])
    loop.stopAndJoin()
  }

  @Test(
    "A batch is taken from its front as far as there is room, and the sender keeps the rest")
  func partialBatch() async throws {
    let loop = EventLoop(name: "partial")
    let (stream, continuation) = AsyncStream.makeStream(of: [Int].self)
    let inbox = Inbox<Int>(loop: loop, capacity: 5) { continuation.yield($0) }
    var outgoing: [Int] = []
    #expect(inbox.send(contentsOf: &outgoing) == 0)
    outgoing = [1, 2]
    #expect(inbox.send(contentsOf: &outgoing) == 2)
    #expect(outgoing == [])
    outgoing = [3, 4, 5, 6, 7]
    #expect(inbox.send(contentsOf: &outgoing) == 3)
    #expect(outgoing == [6, 7])
    #expect(inbox.send(contentsOf: &outgoing) == 0)
    #expect(outgoing == [6, 7])
    loop.start()
    #expect(await stream.first(1) == [[1, 2, 3, 4, 5]])
    #expect(inbox.send(contentsOf: &outgoing) == 2)
    #expect(await stream.first(1) == [[6, 7]])
    loop.stopAndJoin()
  }

  @Test(
    "Four threads' elements arrive exactly once, each thread's in order", arguments: [1, 7, 64])
  func fourProducers(capacity: Int) async throws {
    let each = 20_000
    try await withLoops("consumer") { loops in
      let received = Confined<[[Int]]>(Array(repeating: [], count: 4))
      let largest = Confined(0)
      let inbox = Inbox<(producer: Int, number: Int)>(loop: loops[0], capacity: capacity) { batch in
        largest.value = max(largest.value, batch.count)
        for element in batch { received.value[element.producer].append(element.number) }
      }
      await withTaskGroup { group in
        for producer in 0..<4 {
          group.addTask {
            await withCheckedContinuation { continuation in
              Thread.detachNewThread {
                produce(each, as: producer, into: inbox)
                continuation.resume()
              }
            }
          }
        }
      }
      // Everything was queued; it is delivered within one more turn.
      let (all, most) = try await loops[0].on { (received.value, largest.value) }
      for numbers in all { #expect(numbers == Array(0..<each)) }
      #expect(1...capacity ~= most)
    }
  }

  @Test("The handler may send to its own inbox, which makes a later batch")
  func sendsToItself() async throws {
    try await withLoops("itself") { loops in
      let (stream, continuation) = AsyncStream.makeStream(of: [Int].self)
      let own = Confined<Inbox<Int>?>(nil)
      own.value = Inbox<Int>(loop: loops[0], capacity: 8) { batch in
        continuation.yield(batch)
        for number in batch where number < 5 { _ = own.value?.send(number + 1) }
      }
      #expect(own.value?.send(1) == true)
      #expect(await stream.first(5) == [[1], [2], [3], [4], [5]])
      try await loops[0].on { own.value = nil }
    }
  }

  @Test("Loops pass a counter back and forth through two inboxes")
  func pingPong() async throws {
    try await withLoops("ping", "pong") { loops in
      let inboxes = Confined<[Inbox<Int>]>([])
      let last = await withCheckedContinuation { continuation in
        for index in 0..<2 {
          inboxes.value.append(
            Inbox<Int>(loop: loops[index], capacity: 4) { batch in
              for number in batch {
                if number == 5000 { return continuation.resume(returning: number) }
                _ = inboxes.value[1 - index].send(number + 1)
              }
            })
        }
        _ = inboxes.value[0].send(0)
      }
      #expect(last == 5000)
      try await loops[0].on { inboxes.value[0].close() }
      try await loops[1].on { inboxes.value[1].close() }
    }
  }

  @Test("A closed inbox accepts nothing and returns what it had not delivered")
  func close() async throws {
    let loop = EventLoop(name: "closed")
    let inbox = Inbox<Int>(loop: loop, capacity: 4) { _ in Issue.record("delivered after close") }
    #expect(inbox.send(1))
    #expect(inbox.send(2))
    #expect(inbox.close() == [1, 2])
    #expect(!inbox.send(3))
    var outgoing = [4]
    #expect(inbox.send(contentsOf: &outgoing) == 0)
    #expect(outgoing == [4])
    loop.start()
    loop.stopAndJoin()
  }
}

/// Alternates single elements and batches, retrying while the inbox is full.
private func produce(
  _ count: Int, as producer: Int, into inbox: Inbox<(producer: Int, number: Int)>
) {
  var number = 0
  var pending: [(producer: Int, number: Int)] = []
  while number < count || !pending.isEmpty {
    if pending.isEmpty, number % 3 == 0 {
      pending = (number..<min(number + 10, count)).map { (producer, $0) }
      number += pending.count
    }
    if !pending.isEmpty {
      if inbox.send(contentsOf: &pending) == 0 { sched_yield() }
    } else if inbox.send((producer, number)) {
      number += 1
    } else {
      sched_yield()
    }
  }
}
