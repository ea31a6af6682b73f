import ApusModel
import Testing

@testable import ApusHTTP2

/// RFC 9113, sections 5.2, 6.5.2 and 6.9; and what a server can send too much of (section 10.5).
@Suite("Client session, windows and floods")
struct ClientFlowTests {
  private func window(_ stream: UInt32, _ increment: UInt32) -> [UInt8] {
    frame(Kind.windowUpdate, 0, stream: stream, big(increment))
  }

  private func initialWindow(_ bytes: UInt32) -> [UInt8] {
    frame(Kind.settings, 0, stream: 0, [0, 4] + big(bytes))
  }

  private func body(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x61, count: count) }

  /// Stream, length and flags of each DATA frame.
  private func dataFrames(_ client: Client) -> [[Int]] {
    client.output().filter { $0.type == Kind.data }.map {
      [Int($0.stream), $0.payload.count, Int($0.flags)]
    }
  }

  @Test("A body is sent as far as the stream's window allows")
  func streamWindow() {
    let client = Client.ready([0, 4] + big(10))
    client.submit(body: body(25))
    client.submit(body: body(5))
    #expect(dataFrames(client) == [[1, 10, 0], [3, 5, 1]])
    #expect(client.session.windowBytes == 65_535 - 30)
    client.receive(window(1, 14))
    #expect(dataFrames(client) == [[1, 14, 0]])
    client.receive(window(1, 100))
    #expect(dataFrames(client) == [[1, 1, 1]])
    client.receive(headers(1, [0x88], endStream: true) + headers(3, [0x88], endStream: true))
    #expect(client.outcomes() == [1: "200", 3: "200"])
  }

  @Test("A window that SETTINGS made negative must be refilled above 0 (section 6.9.2)")
  func negativeWindow() {
    let client = Client.ready([0, 4] + big(100))
    client.submit(body: body(150))
    #expect(dataFrames(client) == [[1, 100, 0]])
    client.receive(initialWindow(20))
    client.submit(body: body(30))
    // Stream 1 has -80 bytes now.
    #expect(dataFrames(client) == [[3, 20, 0]])
    client.receive(window(1, 80))
    #expect(dataFrames(client) == [])
    client.receive(window(1, 1))
    #expect(dataFrames(client) == [[1, 1, 0]])
    client.receive(initialWindow(69))
    #expect(dataFrames(client) == [[1, 49, 1], [3, 10, 1]])
  }

  @Test("The connection's window is used in the order of the requests, and none starves")
  func connectionWindow() {
    let client = Client.ready([0, 4] + big(1 << 20))
    // 65,535 bytes are three whole frames and 16,383 bytes.
    client.submit(body: body(70_000))
    client.submit(body: body(100))
    #expect(
      dataFrames(client) == [[1, 16_384, 0], [1, 16_384, 0], [1, 16_384, 0], [1, 16_383, 0]])
    #expect(client.session.windowBytes == 65_535 - 70_100)
    client.receive(window(0, 4000))
    client.submit(body: body(1))
    #expect(dataFrames(client) == [[1, 4000, 0]])
    client.receive(window(0, 500))
    #expect(dataFrames(client) == [[1, 465, 1], [3, 35, 0]])
    client.receive(window(0, 500))
    #expect(dataFrames(client) == [[3, 65, 1], [5, 1, 1]])
    #expect(client.session.windowBytes == 434)
  }

  @Test("An answer before the whole request was sent ends it, and frees its share of the window")
  func earlyAnswer() {
    let client = Client.ready([0, 4] + big(10))
    client.submit(body: body(25))
    client.submit(body: body(10))
    _ = client.output()
    client.receive(headers(1, [0x8c]) + data(1, [0x7b]))
    #expect(resetCode(client.output(), 1) == 8)
    #expect(client.session.windowBytes == 65_535 - 20)
    let response = client.session.nextResponse()
    #expect(response?.status == 400)
    #expect(response?.wasSentWhole == false)
    client.receive(window(1, 100) + initialWindow(1000))
    #expect(dataFrames(client) == [])
  }

  @Test("The connection's window is refilled once half of it is used, also by late frames")
  func refill() {
    let client = Client.sent(1)
    client.receive(headers(1, [0x88], endStream: true))
    let piece = data(1, body(16_384), endStream: false)
    let half = Limits.connectionWindowBytes / 2
    for _ in 0..<(half - 1) / 16_384 { client.receive(piece) }
    #expect(client.output().isEmpty)
    client.receive(piece)
    let update = client.output()
    #expect(update.map(\.type) == [Kind.windowUpdate])
    #expect(update[0].payload == big(UInt32((half - 1) / 16_384 + 1) * 16_384))
  }

  @Test("The rest of an answer that never ends is cut off")
  func endlessAnswer() {
    let client = Client.sent(1)
    client.receive(headers(1, [0x88]))
    for _ in 0..<2 { client.receive(data(1, body(16_384), endStream: false)) }
    #expect(resetCode(client.output(), 1) == 8)
    let response = client.session.nextResponse()
    #expect(response?.status == 200)
    #expect(response?.body.count == Limits.answerBytes)
    #expect(client.session.openStreamCount == 0)
  }

  @Test("PING and SETTINGS are acknowledged, until the server reads too few of them")
  func acknowledgements() {
    let ping = frame(Kind.ping, 0, stream: 0, [1, 2, 3, 4, 5, 6, 7, 8])
    let client = Client.ready()
    client.receive(ping + frame(Kind.settings))
    #expect(
      client.output() == [
        Frame(type: Kind.ping, flags: 1, stream: 0, payload: [1, 2, 3, 4, 5, 6, 7, 8]),
        Frame(type: Kind.settings, flags: 1, stream: 0, payload: []),
      ])
    for flood in [ping, frame(Kind.settings)] {
      let client = Client.sent(1)
      for _ in 0..<Limits.pendingAcknowledgements { #expect(client.receive(flood) == .ok) }
      #expect(client.receive(flood) == .failed)
      #expect(GoAway(client.output())?.code == 11)
      #expect(client.lost() == [1: "lost"])
    }
  }

  @Test(
    "Floods of frames that need no answer keep no memory", arguments: [2, 3, 8, 0xee] as [UInt8])
  func ignored(type: UInt8) {
    let client = Client.sent(2)
    client.receive(headers(1, [0x88], endStream: true))
    _ = client.outcomes()
    let payload = type == 2 ? [0, 0, 0, 0, 1] : big(1)
    let flood = (0..<500).flatMap { _ in frame(type, 0, stream: 1, payload) }
    for _ in 0..<20 { #expect(client.receive(flood) == .ok) }
    #expect(!client.session.wantsWrite)
    client.receive(headers(3, [0x88], endStream: true))
    #expect(client.outcomes() == [3: "200"])
  }

  @Test("A response has at most 16 interim ones")
  func interim() {
    let interim = headers(1, [0x08, 3, 0x31, 0x30, 0x33])
    let client = Client.sent(1)
    for _ in 0..<16 { client.receive(interim) }
    #expect(client.outcomes() == [:])
    client.receive(interim)
    #expect(client.outcomes() == [1: "reset 1"])
  }

  @Test("A header block has at most nine CONTINUATION frames")
  func continuations() {
    let client = Client.sent(1)
    client.receive(frame(Kind.headers, 1, stream: 1, [0x88]))
    let more = frame(Kind.continuation, 0, stream: 1)
    for _ in 0..<8 { #expect(client.receive(more) == .ok) }
    #expect(client.receive(more) == .failed)
    #expect(GoAway(client.output())?.code == 11)
    let patient = Client.sent(1)
    patient.receive(frame(Kind.headers, 1, stream: 1, [0x88]))
    for _ in 0..<8 { patient.receive(more) }
    patient.receive(frame(Kind.continuation, Flag.endHeaders, stream: 1))
    #expect(patient.outcomes() == [1: "200"])
  }

  @Test("A few bytes that repeat a long table entry reset the stream, or end the connection")
  func expansion() {
    let entry = [0x40, 1, 0x61, 0x7f, 0xa1, 0x1e] + body(4000)
    for (count, outcome) in [(10, "200"), (20, "reset 1")] {
      let client = Client.sent(1)
      let block = [0x88] + entry + [UInt8](repeating: 0xbe, count: count)
      client.receive(headers(1, block, endStream: true))
      #expect(client.outcomes() == [1: outcome])
    }
    let client = Client.sent(1)
    #expect(
      client.receive(headers(1, [0x88] + entry + [UInt8](repeating: 0xbe, count: 140))) == .failed)
    #expect(GoAway(client.output())?.code == 11)
  }

  @Test("A limit below the open requests only delays new ones, and 0 is a limit")
  func streamLimit() {
    let client = Client.sent(3)
    client.receive(frame(Kind.settings, 0, stream: 0, [0, 3] + big(1)))
    #expect(client.submit() == nil)
    client.receive(headers(1, [0x88], endStream: true) + headers(3, [0x88], endStream: true))
    #expect(client.submit() == nil)
    client.receive(headers(5, [0x88], endStream: true))
    #expect(client.submit() == 7)
    client.receive(frame(Kind.settings, 0, stream: 0, [0, 3] + big(0)))
    #expect(client.session.availableStreams == 0)
    client.receive(frame(Kind.settings, 0, stream: 0, [0, 3] + big(.max)))
    #expect(client.session.availableStreams == Limits.concurrentStreams - 1)
  }
}
