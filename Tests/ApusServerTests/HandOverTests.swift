import ApusModel
import ApusServer
import ApusTesting
import Testing

/// Connections move to a worker once their peers are authenticated, with all data received meanwhile.
@Suite("Data after a credential")
struct HandOverTests {
  let service: TestService
  /// Of an offline device.
  private let token: String

  init() throws {
    service = try Shared.service
    token = try service.connect().token()
  }

  /// More bytes than an acceptor processes in a turn.
  private static let requests = 60

  /// The preface and requests in one write, whose first request may have the credential.
  private func send(
    _ count: Int, on client: RawHTTP2Client, authorization: String?
  ) throws -> [UInt32] {
    let headers = service.pushHeaders(to: token, authorization: authorization)
    let streams = (0..<count).map { _ in client.takeStream() }
    let frames = streams.flatMap { stream in
      [
        HTTP2Frame.headers(stream, headers, endsStream: false),
        HTTP2Frame.data(stream, TestService.payload),
      ]
    }
    let bytes = HTTP2Frame.preface + HTTP2Frame.settings().bytes + frames.flatMap(\.bytes)
    #expect(bytes.count > 4 * Limits.untrustedTurnBytes)
    try client.tls.send(bytes)
    return streams
  }

  @Test("Requests after the first token are answered, and the stream limit rises once")
  func afterToken() throws {
    let client = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
    let streams = try send(Self.requests, on: client, authorization: service.authorization())
    for stream in streams { #expect(try client.response(to: stream).status == 200) }
    // RFC 9113, section 6.5.2: SETTINGS_MAX_CONCURRENT_STREAMS is 3.
    let limits = client.received.filter { $0.kind == 4 && !$0.isAcknowledgement }.compactMap {
      $0.settingValues[3]
    }
    #expect(
      limits == [UInt32(Limits.concurrentStreamsUntrusted), UInt32(Limits.concurrentStreams)])
    // Work counted by one worker is not counted by another.
    let more = try service.pushHeaders(to: token, authorization: service.authorization())
    #expect(try client.exchange(more, body: TestService.payload).status == 200)
  }

  @Test("Requests before the credential are rejected one by one, later ones are accepted")
  func mixed() throws {
    let client = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
    let unauthorized = try send(Self.requests, on: client, authorization: nil)
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    let good = try (0..<Self.requests).map { _ in
      try client.request(headers, body: TestService.payload)
    }
    for stream in unauthorized { #expect(try client.response(to: stream).status == 403) }
    for stream in good { #expect(try client.response(to: stream).status == 200) }
  }

  @Test("A provider that closes its side after its requests gets the answers, and GOAWAY")
  func finished() throws {
    let client = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
    // It sends nothing after its end.
    client.acknowledgesSettings = false
    let streams = try send(Self.requests, on: client, authorization: service.authorization())
    try client.tls.finish()
    for stream in streams { #expect(try client.response(to: stream).status == 200) }
    #expect(try client.end().goAways.count == 1)
  }

  private func next(_ client: RawCourierClient) throws -> RawCourierFrame {
    let frame = try client.nextFrame()
    return try #require(frame)
  }

  @Test("A device's requests after its connect message are answered in order")
  func device() throws {
    let device = try service.directory.device()
    let client = try service.courier(device)
    let base = service.directory.baseToken(device.id).bytes
    let request = RawCourierFrame(
      0x11, (1, base), (2, ConnectedDevice.hash(TestDirectory.topic)), (3, [0, 0]))
    let filter = RawCourierFrame(0x09, (1, base), (2, ConnectedDevice.hash(TestDirectory.topic)))
    let flush = RawCourierFrame(0x0f, (1, [0, 0]))
    let requests = Array(repeating: request, count: 40)
    let bytes = ([ConnectedDevice.connectMessage(), filter] + requests + [flush]).flatMap(\.bytes)
    #expect(bytes.count > 2 * Limits.untrustedTurnBytes)
    try client.tls.send(bytes)
    #expect(try client.expect(0x08)[1] == [0])
    var answers = 0
    while true {
      let frame = try next(client)
      if frame.command == 0x12 { answers += 1 }
      if frame.command == 0x10 { break }
    }
    // Token answers wait for the device's record, the flush does not.
    while answers < requests.count {
      if try next(client).command == 0x12 { answers += 1 }
    }
  }
}
