import ApusModel
import ApusTesting
import Testing

@Suite("Bodies at and beyond their limits")
struct PayloadTests {
  let service: TestService

  init() throws { service = try Shared.service }

  /// A payload of exactly `count` bytes.
  private static func payload(_ count: Int) -> [UInt8] {
    let frame = Array(#"{"aps":{"alert":""}}"#.utf8)
    return Array(#"{"aps":{"alert":""#.utf8)
      + [UInt8](repeating: UInt8(ascii: "x"), count: count - frame.count) + Array(#""}}"#.utf8)
  }

  @Test(
    "A payload that is empty, too large, or not an object with aps is rejected",
    arguments: [
      RequestCase("no body", 400, "PayloadEmpty", body: []),
      RequestCase("4097 bytes", 413, "PayloadTooLarge", body: payload(4097)),
      RequestCase("5121 bytes", 413, "PayloadTooLarge", body: payload(5121)),
      RequestCase("40,000 bytes", 413, "PayloadTooLarge", body: payload(40_000)),
      RequestCase("not JSON", 400, "BadRequestPayload", body: Array("alert".utf8)),
      RequestCase("cut off", 400, "BadRequestPayload", body: Array(#"{"aps":{"alert":"h"#.utf8)),
      RequestCase("an array", 400, "BadRequestPayload", body: Array(#"[{"aps":{}}]"#.utf8)),
      RequestCase("a string", 400, "BadRequestPayload", body: Array(#""aps""#.utf8)),
      RequestCase("null", 400, "BadRequestPayload", body: Array("null".utf8)),
      RequestCase("without aps", 400, "BadRequestPayload", body: Array(#"{"a":1}"#.utf8)),
      RequestCase("two objects", 400, "BadRequestPayload", body: Array(#"{"aps":{}}{}"#.utf8)),
      RequestCase(
        "not UTF-8", 400, "BadRequestPayload",
        body: Array(#"{"aps":{"alert":""#.utf8) + [0xff] + Array(#""}}"#.utf8)),
      RequestCase(
        "nested 2,000 deep", 400, "BadRequestPayload",
        body: Array(
          (#"{"aps":{},"a":"# + String(repeating: "[", count: 1000)
            + String(repeating: "]", count: 1000) + "}").utf8)),
    ])
  func refused(_ request: RequestCase) throws { try request.run(service) }

  @Test("4096 bytes are delivered unchanged")
  func largest() throws {
    let provider = try service.provider()
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let stream = try provider.request(
      service.pushHeaders(to: token, authorization: service.authorization()),
      body: Self.payload(4096))
    let notification = try device.notification()
    #expect(notification[3] == Self.payload(4096))
    try device.acknowledge(notification)
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("A VoIP push may have up to 5120 bytes")
  func voip() throws {
    let topic = "\(TestDirectory.topic).voip"
    let provider = try service.provider()
    let device = try service.connect()
    let token = try device.token(topic)
    try device.enable(topic)
    let headers = try service.pushHeaders(
      to: token, topic: topic, authorization: service.authorization()
    ).setting("apns-push-type", "voip")
    expectRefusal(
      try provider.exchange(headers, body: Self.payload(5121)), 413, "PayloadTooLarge")
    let stream = try provider.request(headers, body: Self.payload(5120))
    let notification = try device.notification()
    #expect(notification[2] == ConnectedDevice.hash(topic))
    #expect(notification[3] == Self.payload(5120))
    try device.acknowledge(notification)
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("A file provider push has no aps")
  func fileProvider() throws {
    let topic = "\(TestDirectory.topic).pushkit.fileprovider"
    let provider = try service.provider()
    let device = try service.connect()
    let token = try device.token(topic)
    try device.enable(topic)
    let headers = try service.pushHeaders(
      to: token, topic: topic, authorization: service.authorization())
    // As in the header of NSFileProviderManager.
    let body = Array(#"{"container-identifier":"NSFileProviderRootContainer","domain":"d"}"#.utf8)
    for headers in [headers, headers.setting("apns-push-type", "fileprovider")] {
      let stream = try provider.request(headers, body: body)
      let notification = try device.notification()
      #expect(notification[3] == body)
      try device.acknowledge(notification)
      #expect(try provider.response(to: stream).status == 200)
    }
    let other = try service.pushHeaders(
      to: device.token(), authorization: service.authorization()
    ).setting("apns-push-type", "alert")
    expectRefusal(try provider.exchange(other, body: body), 400, "BadRequestPayload")
  }

  @Test("A body in many frames, some empty or padded, is one body")
  func pieces() throws {
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization())
    let stream = provider.takeStream()
    let payload = TestService.payload
    try provider.send(
      .headers(stream, headers), .data(stream, Array(payload[..<3]), endsStream: false),
      .data(stream, [], endsStream: false),
      // A pad length of 4, the data, 4 zeros: RFC 9113, section 6.1.
      HTTP2Frame(
        HTTP2Frame.Kind.data, flags: HTTP2Frame.Flag.padded, stream: stream,
        [4] + payload[3..<9] + [0, 0, 0, 0]),
      .data(stream, Array(payload[9...])))
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("A body whose length differs from content-length makes the request malformed")
  func contentLength() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: service.authorization())
      let stream = try provider.request(
        headers + [RawHeader("content-length", "5")], body: TestService.payload)
      guard case .reset(1) = try provider.outcome(of: stream) else {
        Issue.record("a body longer than announced was accepted")
        return
      }
      let right = headers + [RawHeader("content-length", "\(TestService.payload.count)")]
      #expect(try provider.exchange(right, body: TestService.payload).status == 200)
    }
  }
}
