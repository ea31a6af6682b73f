import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Client session")
struct ClientTests {
  private func fields(path: String = "/3/device/aabb", topic: String? = nil) -> RequestFields {
    var fields = RequestFields()
    func add(_ name: HeaderName, _ value: String) {
      let bytes = Array(value.utf8)
      let hasRoom = fields.add(name, value: bytes.span)
      #expect(hasRoom)
    }
    add(.method, "POST")
    add(.scheme, "https")
    add(.path, path)
    add(.authority, "localhost")
    add(.authorization, "bearer abc")
    if let topic { add(.apnsTopic, topic) }
    return fields
  }

  private func submit(
    _ client: Client, topic: String? = nil, body: String = "{\"aps\":{}}"
  ) -> Int32? {
    let bytes = Array(body.utf8)
    return client.session.submit(fields: fields(topic: topic), body: bytes.span)
  }

  private func text(_ response: HTTP2Response?, _ name: HeaderName) -> String? {
    guard let fields = response?.fields, fields.contains(name) else { return nil }
    return fields.value(name).text
  }

  private func bodyText(_ response: HTTP2Response?) -> String? {
    guard let body = response?.body else { return nil }
    return body.span.text
  }

  @Test("It opens with the preface and SETTINGS without push")
  func opening() {
    let bytes = Client(shares: false).outputBytes()
    #expect(
      Array(bytes.prefix(39))
        == preface + [0, 0, 6, 4, 0, 0, 0, 0, 0, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00])
  }

  @Test("No request is sent before the server's SETTINGS, nor above its limit")
  func limit() {
    let client = Client(shares: false)
    #expect(client.session.availableStreams == 0)
    #expect(submit(client) == nil)
    client.receive(frame(Kind.settings, 0, stream: 0, [0x00, 0x03, 0, 0, 0, 1]))
    #expect(client.session.availableStreams == 1)
    #expect(submit(client) == 1)
    #expect(submit(client) == nil)
    client.receive(frame(Kind.settings, 0, stream: 0, [0x00, 0x03, 0, 0, 0, 2]))
    #expect(submit(client) == 3)
    #expect(submit(client) == nil)
    client.receive(frame(Kind.settings, 0, stream: 0, [0x00, 0x03, 0, 0, 0, 0]))
    #expect(client.session.availableStreams == 0)
  }

  @Test("A request is HEADERS and DATA, and repeated values come from the table")
  func requestFrames() throws {
    let client = Client.ready(shares: false)
    #expect(submit(client) == 1)
    let first = try #require(frames(client.outputBytes()))
    #expect(first.map(\.type) == [Kind.headers, Kind.data])
    #expect(first.map(\.flags) == [Flag.endHeaders, Flag.endStream])
    #expect(first[1].payload == Array("{\"aps\":{}}".utf8))
    #expect(submit(client, topic: "com.example", body: "") == 3)
    _ = client.outputBytes()
    #expect(submit(client, topic: "com.example", body: "") == 5)
    let second = try #require(frames(client.outputBytes()))
    #expect(second.map(\.flags) == [Flag.endHeaders | Flag.endStream])
    // 0x83 `:method: POST`, 0x14 `:path` never indexed; at the end apns-topic from the table (0xbe, its newest entry).
    #expect(Array(second[0].payload.prefix(2)) == [0x83, 0x14])
    #expect(second[0].payload.last == 0xbe)
    // 0x1f 0x08: `authorization` (index 23), never indexed.
    #expect(second[0].payload.contains(0x1f))
  }

  @Test("A server's smaller table applies from the acknowledgement on, not before")
  func smallerTable() throws {
    let client = Client.ready(shares: false)
    #expect(submit(client, topic: "com.example", body: "") == 1)
    _ = client.outputBytes()
    #expect(submit(client, topic: "com.example", body: "") == 3)
    // SETTINGS_HEADER_TABLE_SIZE 0 arrives while the request waits.
    client.receive(frame(Kind.settings, 0, stream: 0, [0x00, 0x01, 0, 0, 0, 0]))
    #expect(submit(client, topic: "com.example", body: "") == 5)
    let sent = try #require(frames(client.outputBytes()))
    #expect(sent.map(\.type) == [Kind.headers, Kind.settings, Kind.headers])
    #expect(sent[0].payload.last == 0xbe)
    #expect(sent[1].flags == Flag.acknowledge)
    #expect(sent[2].payload.first == 0x20)
    #expect(sent[2].payload.suffix(12) == [11] + Array("com.example".utf8))
  }

  @Test("Responses are read with and without a body, and after an interim one")
  func answers() {
    let client = Client.ready(shares: false)
    _ = submit(client)
    _ = submit(client)
    _ = client.outputBytes()
    let error = "{\"reason\":\"BadDeviceToken\"}"
    client.receive(
      headers(1, [0x08, 3] + Array("103".utf8))
        + headers(1, [0x88] + literal("apns-id", "abc"), endStream: true)
        + headers(3, [0x8c] + literal("content-type", "application/json"))
        + data(3, Array(error.utf8)))
    let first = client.session.nextResponse()
    #expect(first?.streamID == 1)
    #expect(first?.status == 200)
    #expect(first?.failure == nil)
    #expect(text(first, .apnsID) == "abc")
    let second = client.session.nextResponse()
    #expect(second?.status == 400)
    #expect(text(second, .contentType) == "application/json")
    #expect(bodyText(second) == error)
    #expect(client.session.nextResponse() == nil)
    #expect(client.session.openStreamCount == 0)
  }

  @Test("A failure tells whether the request may be sent again")
  func failures() {
    let client = Client.ready(shares: false)
    for _ in 0..<5 { _ = submit(client) }
    _ = client.outputBytes()
    client.receive(
      frame(Kind.reset, 0, stream: 1, big(7)) + frame(Kind.reset, 0, stream: 3, big(2))
        + frame(
          Kind.goAway, 0, stream: 0, big(5) + big(0) + Array("{\"reason\":\"Shutdown\"}".utf8)))
    var outcomes: [Int32: HTTP2StreamFailure] = [:]
    while let response = client.session.nextResponse() {
      outcomes[response.streamID] = response.failure
      client.session.release(response)
    }
    #expect(
      outcomes == [1: .refused, 3: .reset(.internalError), 7: .goneAway, 9: .goneAway])
    #expect(client.session.isClosing)
    #expect(client.session.goAway?.lastStreamID == 5)
    #expect(client.session.goAway?.code == .noError)
    #expect(client.session.goAway?.debugData == Array("{\"reason\":\"Shutdown\"}".utf8))
    #expect(submit(client) == nil)
    // Stream 5 is still answered.
    client.receive(headers(5, [0x88], endStream: true))
    #expect(client.session.nextResponse()?.status == 200)
    #expect(client.session.isFinished)
  }

  @Test("A request that was not sent before a GOAWAY arrived may be sent again")
  func unsent() {
    let client = Client.ready(shares: false)
    _ = submit(client)
    client.receive(frame(Kind.goAway, 0, stream: 0, big(0) + big(0)))
    _ = client.outputBytes()
    #expect(client.session.nextResponse()?.failure == .goneAway)
    #expect(client.session.openStreamCount == 0)
  }

  @Test("A PING is answered")
  func ping() {
    let client = Client.ready(shares: false)
    client.session.ping()
    let ping = frames(client.outputBytes())?.first
    #expect(ping?.type == Kind.ping)
    client.receive(frame(Kind.ping, Flag.acknowledge, stream: 0, ping?.payload ?? []))
    #expect(client.session.pongCount == 1)
  }

  @Test("Client and server exchange bytes in pieces of any size", arguments: [1, 7, 1000])
  func together(piece: Int) {
    let client = Client(shares: false)
    let server = Server(.untrusted)
    var streams: [Int32] = []
    var answers: [Int32: UInt16] = [:]
    var turns = 0
    while answers.count < 300, turns < 5000 {
      turns += 1
      while streams.count < 300,
        let stream = submit(client, topic: "com.example.\(streams.count)")
      { streams.append(stream) }
      carry(from: client.outputBytes(), piece: piece) { #expect(server.receive($0) == .ok) }
      while let request = server.session.nextRequest() {
        let fields = request.fields
        let number = Int(fields.value(.apnsTopic).text.split(separator: ".").last ?? "") ?? -1
        #expect(streams.firstIndex(of: request.streamID) == number)
        #expect(number % 2 == 0 ? server.ok(request.streamID) : server.refuse(request.streamID))
        server.session.release(request)
        server.session.raiseStreamLimit(to: 1000)
      }
      carry(from: server.outputBytes(), piece: piece) { #expect(client.receive($0) == .ok) }
      while let response = client.session.nextResponse() {
        #expect(response.failure == nil)
        answers[response.streamID] = response.status
        #expect(text(response, .apnsID) == "EC1BF194-B3B2-424A-89A9-5A918A6E6B5D")
        #expect(bodyText(response) == (response.status == 200 ? "" : "{\"reason\":\"BadPath\"}"))
        client.session.release(response)
      }
    }
    #expect(answers.values.count { $0 == 200 } == 150)
    #expect(answers.values.count { $0 == 400 } == 150)
    #expect(server.session.openStreamCount == 0)
    #expect(server.pool.openCount == 0)
    #expect(client.session.openStreamCount == 0)
  }

  private func carry(from bytes: [UInt8], piece: Int, to receive: ([UInt8]) -> Void) {
    for start in stride(from: 0, to: bytes.count, by: piece) {
      receive(Array(bytes[start..<min(start + piece, bytes.count)]))
    }
  }
}
