import ApusModel
import Testing

@testable import ApusHTTP2

/// RFC 9113, section 5.1: what a frame means depends on what came before.
@Suite("Client session, streams")
struct ClientStreamTests {
  private func goAway(_ last: UInt32, code: UInt32 = 0) -> [UInt8] {
    frame(Kind.goAway, 0, stream: 0, big(last) + big(code))
  }

  private func reset(_ stream: UInt32, _ code: UInt32) -> [UInt8] {
    frame(Kind.reset, 0, stream: stream, big(code))
  }

  @Test(
    "Frames on a closed stream are ignored, however it was closed",
    arguments: [
      ("END_STREAM", headers(1, [0x88], endStream: true), "200"),
      ("RST_STREAM", frame(Kind.reset, 0, stream: 1, big(2)), "reset 2"),
      ("our RST_STREAM", data(1, [1]), "reset 1"),
      ("GOAWAY", frame(Kind.goAway, 0, stream: 0, big(0) + big(0)), "gone away"),
    ])
  func closed(how: String, bytes: [UInt8], outcome: String) {
    let client = Client.sent(1)
    client.receive(bytes)
    #expect(client.outcomes() == [1: outcome])
    _ = client.output()
    let late = [
      data(1, [1]), headers(1, [0x88]), headers(1, literal("a", "b"), endStream: true),
      reset(1, 8), frame(Kind.windowUpdate, 0, stream: 1, big(0)),
      frame(Kind.windowUpdate, 0, stream: 1, big(0x7fff_ffff)),
      frame(Kind.priority, 0, stream: 1, [0, 0, 0, 0, 1]),
    ]
    for bytes in late { #expect(client.receive(bytes) == .ok) }
    #expect(client.outcomes() == [:])
    #expect(client.output().isEmpty)
  }

  @Test("A block on a closed stream changes the table like any other (RFC 7541, section 2.2)")
  func tableOfClosed() {
    let client = Client.sent(2)
    client.receive(headers(1, [0x88], endStream: true))
    // `apns-id: late` enters the table; 0xbe is the newest entry.
    client.receive(headers(1, [0x40, 7] + Array("apns-id".utf8) + [4] + Array("late".utf8)))
    client.receive(headers(3, [0x88, 0xbe], endStream: true))
    #expect(client.session.nextResponse()?.streamID == 1)
    #expect(client.session.nextResponse()?.text(.apnsID) == "late")
    #expect(client.receive(headers(1, [0x80])) == .failed)
  }

  @Test("A server cannot know a stream of which nothing was sent")
  func unsent() {
    for bytes in [headers(1, [0x88]), data(1, [1]), reset(1, 7)] {
      let client = Client.ready()
      client.submit()
      #expect(client.receive(bytes) == .failed)
      // It is not sent any more.
      #expect(client.output().map(\.type) == [Kind.goAway])
      #expect(client.lost() == [1: "lost"])
    }
  }

  @Test("REFUSED_STREAM proves nothing after a response has begun (section 8.7)")
  func refused() {
    let client = Client.sent(3)
    client.receive(headers(3, [0x08, 3, 0x31, 0x30, 0x30]) + headers(5, [0x88]))
    for stream in [1, 3, 5] as [UInt32] { client.receive(reset(stream, 7)) }
    #expect(client.outcomes() == [1: "refused", 3: "reset 7", 5: "reset 7"])
  }

  @Test(
    "GOAWAY may be repeated with earlier streams, and spares those up to the last (section 6.8)")
  func goAways() {
    let client = Client.sent(5)
    client.receive(goAway(0x7fff_ffff))
    #expect(client.outcomes() == [:])
    #expect(client.submit() == nil)
    client.receive(headers(3, [0x88]) + goAway(7))
    #expect(client.outcomes() == [9: "gone away"])
    // Stream 3 was being answered: it was processed.
    client.receive(goAway(1, code: 2))
    #expect(client.outcomes() == [3: "reset 2", 5: "gone away", 7: "gone away"])
    client.receive(goAway(9))
    #expect(client.session.goAway?.lastStreamID == 1)
    #expect(!client.session.isFinished)
    client.receive(headers(1, [0x88], endStream: true))
    #expect(client.outcomes() == [1: "200"])
    #expect(client.session.isFinished)
  }

  @Test("Open requests are answered after a goodbye of ours")
  func goodbye() {
    let client = Client.sent(1)
    client.session.close()
    #expect(GoAway(client.output()) == GoAway(last: 0, code: 0, text: ""))
    #expect(client.submit() == nil)
    #expect(!client.session.isFinished)
    client.receive(headers(1, [0x88], endStream: true))
    #expect(client.outcomes() == [1: "200"])
    #expect(client.session.isFinished)
  }

  @Test("A request whose end was not taken was not sent whole")
  func parts() throws {
    let client = Client.ready()
    let length = { client.session.output.count }
    client.submit()
    let first = length()
    client.submit(body: [UInt8](repeating: 0x20, count: 100))
    client.submit()
    // The first request, and half of the second.
    let taken = client.outputBytes(limit: first + 50)
    client.receive(data(0, [1]))
    let sent = try #require(frames(taken + client.outputBytes()))
    #expect(sent.map(\.stream) == [1, 1, 3, 3, 0])
    #expect(sent.last?.type == Kind.goAway)
    client.session.connectionLost()
    var whole: [Int32: Bool] = [:]
    while let response = client.session.nextResponse() {
      whole[response.streamID] = response.wasSentWhole
    }
    // The rest of the second request is written all the same, but nothing waits for its response.
    #expect(whole == [1: true, 3: true, 5: false])
  }

  @Test("A request whose end leaves together with our reset counts as sent whole")
  func resetInOutput() {
    let client = Client.ready([0, 4] + big(1))
    client.submit()
    client.submit()
    _ = client.outputBytes()
    // The rest of the first body may go, and the response is malformed; so is the second one.
    client.receive(
      frame(Kind.windowUpdate, 0, stream: 1, big(1)) + headers(1, []) + headers(3, []))
    #expect(client.output().map { [UInt32($0.type), $0.stream] } == [[0, 1], [3, 1], [3, 3]])
    var whole: [Int32: Bool] = [:]
    while let response = client.session.nextResponse() {
      whole[response.streamID] = response.wasSentWhole
    }
    #expect(whole == [1: true, 3: false])
  }

  @Test("Once all 2^30 streams are used, no request can be sent")
  func exhausted() {
    let client = Client.ready()
    client.session.nextStreamID = Int(Int32.max)
    #expect(client.submit() == .max)
    #expect(client.session.isClosing)
    #expect(client.submit() == nil)
    _ = client.output()
    client.receive(headers(UInt32(Int32.max), [0x88], endStream: true))
    #expect(client.outcomes() == [.max: "200"])
  }

  @Test("Responses are reused without anything of the previous one")
  func reused() {
    let client = Client.sent(1)
    client.receive(
      headers(1, [0x88] + literal("apns-id", "a") + literal("retry-after", "5")) + data(1, [1]))
    #expect(client.outcomes() == [1: "200"])
    client.submit()
    _ = client.output()
    client.receive(headers(3, [0x88], endStream: true))
    let response = client.session.nextResponse()
    #expect(response?.text(.apnsID) == nil)
    #expect(response?.retryAfterSeconds == nil)
    #expect(response?.body.count == 0)
    #expect(response?.tag == 2)
  }
}
