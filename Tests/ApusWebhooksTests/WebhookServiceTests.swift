import ApusDirectory
import ApusLog
import ApusLoop
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Synchronization
import Testing

@testable import ApusWebhooks

@Suite("Delivery to webhooks")
struct WebhookServiceTests {
  private let directory: TestDirectory
  private let receiver: WebhookReceiver
  private let sink = EventSink()
  private var data: DataDirectory { directory.data }

  init() throws {
    directory = try TestDirectory()
    receiver = try WebhookReceiver()
  }

  private func hook(
    _ name: String = "one", events: EventKinds = .all, secrets: [String] = ["secret"]
  ) -> Webhook {
    Webhook(name: name, url: receiver.url, events: events, secrets: secrets)
  }

  private func start(
    part: Int = 0, megabytes: Int = 1, said: @escaping @Sendable (String) -> Void = { _ in }
  ) -> WebhookService {
    let service = WebhookService(
      data, part: part, sink: sink, megabytes: megabytes, firstEvent: 1,
      log: Log(minimumLevel: .error, sink: said)
    ) { _ in }
    service.start()
    return service
  }

  private func waitUntil(_ condition: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<500 {
      if try condition() { return true }
      usleep(20_000)
    }
    return false
  }

  /// Reports events with the numbers as their devices.
  private func report(_ numbers: Range<Int>, _ kind: EventKind = .deviceConnected) {
    for number in numbers {
      sink.report(kind, milliseconds: 1_700_000_000_000, [.number("number", number)])
    }
  }

  private func numbers(_ requests: [WebhookReceiver.Request]) -> [Int] {
    requests.flatMap(\.events).compactMap { $0["number"]?.integer.map(Int.init) }
  }

  @Test("The queues of different parts of a cluster's devices share neither files nor numbers")
  func parts() throws {
    try data.add(hook())
    for part in 0..<2 {
      let service = start(part: part)
      #expect(waitUntil { data.webhookState("one", part: part) != nil })
      report(part..<part + 1)
      #expect(numbers(receiver.wait { numbers($0).contains(part) }).last == part)
      let next = UInt64(part) << 46 + 2
      #expect(waitUntil { data.webhookState("one", part: part)?.position == next })
      service.stop()
    }
    let ids = receiver.wait { _ in true }.flatMap(\.events).compactMap { $0["id"]?.integer }
    #expect(ids == [1, 1 + 1 << 46])
    #expect(Files.exists("\(data.path)/webhooks/part-1/events-70368744177665.jsonl"))
  }

  @Test("Without a webhook no event is wanted, and nothing is written")
  func none() throws {
    let service = start()
    #expect(!sink.wants(.deviceConnected))
    report(0..<5)
    service.stop()
    #expect(!Files.exists(data.webhookFolder))
  }

  @Test("What happens before the queue is open arrives, also if it cannot be opened at first")
  func beforeTheQueue() throws {
    try data.add(hook())
    // In place of the folder.
    try Files.write("", to: data.webhookFolder, isPrivate: true)
    let service = start()
    #expect(sink.wants(.deviceConnected))
    report(0..<5)
    usleep(300_000)
    report(5..<10)
    Files.remove(data.webhookFolder)
    #expect(waitUntil { numbers(receiver.requests).count >= 10 })
    #expect(numbers(receiver.requests) == Array(0..<10))
    service.stop()
  }

  @Test("Events arrive in order, in signed batches")
  func batches() throws {
    try data.add(hook())
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<350)
    let requests = receiver.wait { numbers($0).count >= 350 }
    #expect(numbers(requests) == Array(0..<350))
    #expect(requests.allSatisfy { $0.events.count <= 100 })
    for request in requests {
      let time = request.signature.split(separator: ",")[0].dropFirst(2)
      let signed = Array("\(time).".utf8) + request.body
      let key = Array("secret".utf8)
      #expect(
        request.signature == "t=\(time),v1=\(HMACSHA256.digest(of: signed.span, key: key.span).hex)"
      )
    }
    let first = try #require(requests.first?.events.first)
    #expect(first["id"]?.integer == 1)
    #expect(first["event"]?.string == "device.connected")
    #expect(first["time"]?.string == "2023-11-14T22:13:20.000Z")
    service.stop()
    #expect(service.facts().map(\.delivered) == [350])
  }

  @Test("A webhook gets only the events that it wants")
  func filtered() throws {
    try data.add(hook(events: EventKinds([.tokenDied])))
    let service = start()
    #expect(waitUntil { sink.wants(.tokenDied) })
    #expect(!sink.wants(.deviceConnected))
    try data.add(hook("two", events: EventKinds([.deviceConnected])))
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<3)
    report(3..<4, .tokenDied)
    let requests = receiver.wait { numbers($0).count >= 4 }
    for request in requests {
      let text = String(decoding: request.body, as: UTF8.self)
      let kinds = Set(request.events.compactMap { $0["event"]?.string })
      #expect(
        kinds == (text.hasPrefix(#"{"webhook":"one""#) ? ["token.died"] : ["device.connected"]))
    }
    #expect(waitUntil { service.facts().allSatisfy { $0.waiting == 0 } })
    service.stop()
  }

  @Test(
    "A failed request is repeated with the same events first, and noted", arguments: [500, 302])
  func repeated(status: Int) throws {
    try data.add(hook())
    receiver.answer(status)
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<2)
    _ = receiver.wait { !$0.isEmpty }
    #expect(waitUntil { data.webhookState("one")?.error == "the receiver answered \(status)" })
    report(2..<4)
    let requests = receiver.wait { numbers($0).count >= 6 }
    let all = numbers(requests)
    #expect(all.prefix(2) == [0, 1])
    #expect(all.suffix(4) == [0, 1, 2, 3])
    #expect(waitUntil { data.webhookState("one")?.error == nil })
    service.stop()
    #expect(service.facts().map(\.failures) == [1])
  }

  @Test(
    "What was not delivered is delivered after a restart, from another start of the receiver on")
  func restart() throws {
    try data.add(hook())
    receiver.answer(503)
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<3)
    _ = receiver.wait { !$0.isEmpty }
    service.stop()
    let again = start()
    let requests = receiver.wait { numbers($0).count >= 6 }
    #expect(numbers(requests) == [0, 1, 2, 0, 1, 2])
    // The answer may still be under way.
    #expect(waitUntil { again.facts().map(\.waiting) == [0] })
    again.stop()
    // Delivered events are not repeated, and a regular stop leaves no gap.
    let third = start()
    #expect(waitUntil { third.facts().map(\.waiting) == [0] })
    third.stop()
    #expect(numbers(receiver.requests).count == 6)
    #expect(!receiver.requests.flatMap(\.events).contains { $0["event"]?.string == "gap" })
  }

  @Test("After a kill, webhooks are told that events may be missing")
  func killed() throws {
    try data.add(hook(events: EventKinds([.tokenDied])))
    try Files.makeDirectory(data.webhookFolder)
    _ = try DurableFile.create([], at: "\(data.webhookFolder)/running")
    try data.save(WebhookState(position: 1), of: "one", part: 0)
    let service = start()
    let requests = receiver.wait { !$0.isEmpty }
    service.stop()
    let event = try #require(requests.first?.events.first)
    #expect(event["event"]?.string == "gap")
    #expect(event["reason"]?.string?.contains("did not shut down") == true)
  }

  @Test("A start that cannot open the queue leaves it to the next one to tell of a kill")
  func killedBeforeFailedStart() throws {
    let complaints = Atomic(0)
    try data.add(hook())
    try Files.makeDirectory(data.webhookFolder)
    try data.save(WebhookState(position: 1), of: "one", part: 0)
    let running = "\(data.webhookFolder)/running"
    _ = try DurableFile.create([], at: running)
    // In place of a file.
    let folder = "\(data.webhookFolder)/events-1.jsonl"
    try Files.makeDirectory(folder)
    let service = start { _ in complaints.add(1, ordering: .relaxed) }
    #expect(waitUntil { complaints.load(ordering: .relaxed) > 0 })
    service.stop()
    #expect(Files.exists(running))
    try FileManager.default.removeItem(atPath: folder)
    let again = start()
    let requests = receiver.wait { !$0.isEmpty }
    again.stop()
    #expect(requests.first?.events.first?["event"]?.string == "gap")
  }

  @Test(
    "Events that could not be written are told as a gap, at the latest by the next start",
    arguments: [true, false])
  func unwritten(isWritableAtTheEnd: Bool) throws {
    let complaints = Atomic(0)
    try data.add(hook())
    let service = start { _ in complaints.add(1, ordering: .relaxed) }
    #expect(waitUntil { sink.wants(.deviceConnected) })
    // Fills a file of the queue, so that the next event needs another one.
    sink.report(
      .deviceConnected, milliseconds: 0,
      [.number("number", 0), .text("text", String(repeating: "x", count: 200_000))])
    _ = receiver.wait { numbers($0) == [0] }
    let away = "\(data.webhookFolder).away"
    try FileManager.default.moveItem(atPath: data.webhookFolder, toPath: away)
    report(1..<4)
    #expect(waitUntil { complaints.load(ordering: .relaxed) > 0 })
    if isWritableAtTheEnd {
      try FileManager.default.moveItem(atPath: away, toPath: data.webhookFolder)
      service.stop()
    } else {
      service.stop()
      try FileManager.default.moveItem(atPath: away, toPath: data.webhookFolder)
    }
    let again = start()
    let requests = receiver.wait { $0.flatMap(\.events).contains { $0["event"]?.string == "gap" } }
    again.stop()
    // What was accepted when the folder was moved may come again.
    #expect(Set(numbers(requests)) == [0])
    let gap = try #require(requests.last?.events.last)
    #expect(gap["event"]?.string == "gap")
    #expect(gap["missed"]?.integer == (isWritableAtTheEnd ? 3 : nil))
  }

  @Test("A queue that is full drops the oldest events, and tells how many")
  func full() throws {
    try data.add(hook())
    receiver.answer(503, 503)
    let service = start(megabytes: 1)
    #expect(waitUntil { sink.wants(.deviceConnected) })
    let text = String(repeating: "x", count: 20_000)
    for number in 0..<120 {
      sink.report(
        .deviceConnected, milliseconds: 0, [.number("number", number), .text("text", text)])
      if number % 10 == 0 { usleep(110_000) }
    }
    let requests = receiver.wait { numbers($0).last == 119 }
    let all = requests.flatMap(\.events)
    // While requests fail, more are dropped, and the next gap says so.
    let gap = try #require(all.lastIndex { $0["event"]?.string == "gap" })
    #expect(try #require(all[gap]["missed"]?.integer) > 20)
    // The first number is 0, and the first id 1: the event behind the gap has the gap's id as its number.
    let next = Int(try #require(all[gap]["id"]?.integer))
    #expect(
      all[(gap + 1)...].compactMap { $0["number"]?.integer.map(Int.init) } == Array(next..<120))
    #expect(service.droppedCount > 20)
    service.stop()
  }

  @Test("While a secret is rotated, both sign")
  func rotation() throws {
    try data.add(hook(secrets: ["older"]))
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    let secret = try #require(try data.rotateWebhook("one", isFinish: false))
    #expect(
      waitUntil {
        report(0..<1)
        usleep(200_000)
        return receiver.requests.last?.signature.split(separator: ",").count == 3
      })
    let request = try #require(receiver.requests.last)
    let time = request.signature.split(separator: ",")[0].dropFirst(2)
    #expect(
      request.signature
        == WebhookSignature.text(
          body: request.body, secrets: [secret, "older"],
          nowSeconds: try #require(Int64(time))))
    service.stop()
  }

  @Test("A removed webhook gets nothing more, and one that is added gets what happens then")
  func removed() throws {
    try data.add(hook())
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<1)
    _ = receiver.wait { numbers($0).count >= 1 }
    try data.removeWebhook("one")
    #expect(waitUntil { !sink.wants(.deviceConnected) })
    report(1..<2)
    try data.add(hook())
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(2..<3)
    #expect(numbers(receiver.wait { numbers($0).contains(2) }) == [0, 2])
    service.stop()
  }

  @Test("A webhook that is added again while a request of the old one hangs is another one")
  func addedAgain() throws {
    try data.add(hook())
    receiver.hang(true)
    let service = start()
    #expect(waitUntil { sink.wants(.deviceConnected) })
    report(0..<1)
    _ = receiver.wait { !$0.isEmpty }
    try data.removeWebhook("one")
    #expect(waitUntil { !sink.wants(.deviceConnected) })
    try data.add(hook())
    #expect(waitUntil { sink.wants(.deviceConnected) })
    receiver.hang(false)
    for number in 1..<20 {
      report(number..<(number + 1))
      usleep(20_000)
    }
    #expect(numbers(receiver.wait { numbers($0).contains(19) }) == Array(0..<20))
    service.stop()
  }

  @Test("A receiver that does not answer delays neither events nor the shutdown")
  func hanging() throws {
    let other = try WebhookReceiver()
    try data.add(hook())
    try data.add(Webhook(name: "two", url: other.url, events: .all, secrets: ["secret"]))
    receiver.hang(true)
    let service = start()
    #expect(waitUntil { service.facts().count == 2 })
    report(0..<1)
    _ = receiver.wait { !$0.isEmpty }
    report(1..<2)
    #expect(numbers(other.wait { numbers($0).count >= 2 }) == [0, 1])
    let start = ContinuousClock.now
    service.stop()
    #expect(ContinuousClock.now - start < .seconds(10))
    receiver.hang(false)
  }

  @Test("The signature is HMAC-SHA256 of time, full stop and body")
  func signature() {
    // From Python: hmac.new(b"secret", b"1700000000.{}", "sha256").
    let text = WebhookSignature.text(
      body: Array("{}".utf8), secrets: ["secret", "older"], nowSeconds: 1_700_000_000)
    #expect(
      text == "t=1700000000"
        + ",v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
        + ",v1=c6476987e659639c112c6200be08d9540007354badac82e98ad84591a0f04063")
  }

  @Test("A test event tells whether the receiver accepts it")
  func test() throws {
    #expect(hook().test(nowMilliseconds: 0) == nil)
    #expect(receiver.requests.first?.events.first?["event"]?.string == "test")
    receiver.answer(401)
    #expect(hook().test(nowMilliseconds: 0) == "the receiver answered 401")
    receiver.stop()
    let closed = Webhook(name: "x", url: "http://127.0.0.1:1/", events: .all, secrets: ["s"])
    #expect(closed.test(nowMilliseconds: 0)?.isEmpty == false)
  }
}
