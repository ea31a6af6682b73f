import ApusModel
import ApusServer
import ApusTesting
import Testing

@Suite("Streams, floods and misplaced frames")
struct StreamTests {
  let service: TestService

  init() throws { service = try Shared.service }

  private func headers(authorized: Bool = true) throws -> [RawHeader] {
    try service.pushHeaders(
      to: Shared.absentToken, authorization: authorized ? service.authorization() : nil)
  }

  @Test("Streams opened before the first SETTINGS arrives are all answered")
  func beforeSettings() throws {
    let provider = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
    provider.acknowledgesSettings = false
    let headers = try headers()
    let streams = (0..<40).map { _ in provider.takeStream() }
    // One write: preface, SETTINGS, and forty requests.
    try provider.tls.send(
      HTTP2Frame.preface + HTTP2Frame.settings().bytes
        + streams.flatMap { RawHTTP2Client.frames($0, headers, TestService.payload) }
        .flatMap(\.bytes))
    for stream in streams { #expect(try provider.response(to: stream).status == 200) }
    #expect(provider.received.compactMap(\.goAway).isEmpty)
  }

  @Test("Above a limit of one a stream is refused, and the first is answered")
  func secondStream() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      // The limit is acknowledged before the streams are opened.
      try provider.ping()
      let headers = try headers()
      let (first, second) = (provider.takeStream(), provider.takeStream())
      try provider.send(.headers(first, headers), .headers(second, headers))
      // REFUSED_STREAM
      guard case .reset(7) = try provider.outcome(of: second) else {
        Issue.record("a second stream was accepted")
        return
      }
      try provider.send(.data(first, TestService.payload))
      #expect(try provider.response(to: first).status == 200)
      // Trusted now: both may be open at the same time.
      let (third, fourth) = (provider.takeStream(), provider.takeStream())
      try provider.send(.headers(third, headers), .headers(fourth, headers))
      try provider.send(.data(fourth, TestService.payload), .data(third, TestService.payload))
      #expect(try provider.response(to: third).status == 200)
      #expect(try provider.response(to: fourth).status == 200)
    }
  }

  @Test("The stream above a thousand is refused, and the thousand are answered")
  func aboveThousand() throws {
    try withBystanders(service) {
      let provider = try service.provider(identity: service.directory.providerIdentity())
      try provider.ping()
      let headers = try headers(authorized: false)
      let streams = (0..<1000).map { _ in provider.takeStream() }
      try provider.send(streams.map { .headers($0, headers) })
      let surplus = provider.takeStream()
      try provider.send(.headers(surplus, headers))
      guard case .reset(7) = try provider.outcome(of: surplus) else {
        Issue.record("stream 1001 was accepted")
        return
      }
      try provider.send(streams.map { .data($0, TestService.payload) })
      let answers = try streams.map { try provider.response(to: $0).status }
      #expect(answers.allSatisfy { $0 == 200 })
    }
  }

  /// Sends `frames` at most `limit` times and expects the connection to end because of the flood.
  private func expectFlooded(
    _ limit: Int, trusted: Bool = true, _ frames: (Int) throws -> [HTTP2Frame]
  ) throws {
    try withBystanders(service) {
      let identity = trusted ? try service.directory.providerIdentity() : nil
      let provider = try service.provider(identity: identity)
      try provider.ping()
      for start in stride(from: 0, to: limit, by: 100) {
        try provider.send((start..<start + 100).flatMap { try frames($0) })
      }
      let end = try provider.end()
      let goAway = try #require(end.goAways.first)
      #expect(end.goAways.count == 1)
      // ENHANCE_YOUR_CALM
      #expect(goAway.code == 11)
      #expect(goAway.debugData == #"{"reason":"TooManyRequests"}"#)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("A flood of PING ends the connection")
  func pings() throws { try expectFlooded(3000) { _ in [.ping([1, 2, 3, 4, 5, 6, 7, 8])] } }

  @Test("A flood of SETTINGS ends the connection")
  func settings() throws { try expectFlooded(3000) { _ in [.settings()] } }

  @Test("A flood of PRIORITY ends the connection")
  func priorities() throws {
    try expectFlooded(3000) { _ in
      [HTTP2Frame(HTTP2Frame.Kind.priority, stream: 1, [0, 0, 0, 0, 16])]
    }
  }

  @Test("A flood of WINDOW_UPDATE ends the connection")
  func windowUpdates() throws { try expectFlooded(3000) { _ in [.windowUpdate(0, by: 1)] } }

  @Test("A flood of unknown frames ends the connection")
  func unknownFrames() throws { try expectFlooded(3000) { _ in [HTTP2Frame(0xbe, [1])] } }

  @Test("A flood of requests that are reset immediately ends the connection")
  func rapidReset() throws {
    let headers = try headers(authorized: false)
    try expectFlooded(3000) { index in
      let stream = UInt32(2 * index + 1)
      return [.headers(stream, headers), .resetStream(stream, code: 8)]
    }
  }

  @Test("A flood of empty DATA on one stream ends the connection")
  func emptyData() throws {
    let headers = try headers(authorized: false)
    try expectFlooded(3000) { index in
      (index == 0 ? [.headers(1, headers)] : []) + [.data(1, [], endsStream: false)]
    }
  }

  @Test("A flood of CONTINUATION after one HEADERS ends the connection")
  func continuations() throws {
    try expectFlooded(100) { index in
      index == 0
        ? [HTTP2Frame(HTTP2Frame.Kind.headers, stream: 1)]
        : [HTTP2Frame(HTTP2Frame.Kind.continuation, stream: 1)]
    }
  }

  @Test(
    "A frame that breaks HTTP/2 ends the connection with the error of RFC 9113",
    arguments: [
      // DATA on stream 0, HEADERS on an even stream, PING of 7 bytes, WINDOW_UPDATE by 0, SETTINGS of 5 bytes,
      // a frame of more than 16,384 bytes, CONTINUATION without HEADERS.
      (HTTP2Frame(HTTP2Frame.Kind.data, stream: 0, [1]), 1),
      (HTTP2Frame(HTTP2Frame.Kind.headers, flags: 5, stream: 2, [0x83]), 1),
      (HTTP2Frame.ping([1, 2, 3, 4, 5, 6, 7]), 6),
      (HTTP2Frame.windowUpdate(0, by: 0), 1),
      (HTTP2Frame(HTTP2Frame.Kind.settings, [0, 3, 0, 0, 0]), 6),
      (HTTP2Frame(0xbe, [UInt8](repeating: 0, count: 16_385)), 6),
      (HTTP2Frame(HTTP2Frame.Kind.continuation, flags: 4, stream: 1, [0x83]), 1),
      (HTTP2Frame(0x5, flags: 4, stream: 1, [0, 0, 0, 2]), 1),
    ] as [(HTTP2Frame, UInt32)])
  func broken(frame: HTTP2Frame, code: UInt32) throws {
    try withBystanders(service) {
      let provider = try service.provider(identity: service.directory.providerIdentity())
      let headers = try headers(authorized: false)
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
      try provider.send(frame)
      let end = try provider.end()
      #expect(end.goAways.map(\.code) == [code], "\(frame)")
      #expect(end.goAways.first?.lastStream == 1)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("An invalid preface ends the connection with PROTOCOL_ERROR")
  func preface() throws {
    try withBystanders(service) {
      let provider = RawHTTP2Client(try service.tls(.provider, protocols: ["h2"]))
      try provider.tls.send(Array("PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n".utf8))
      let end = try provider.end()
      #expect(end.goAways.map(\.code) == [1])
      #expect(end.end == .closeNotify)
    }
  }

  @Test(
    "A request cut off at any byte by a close or reset affects nobody")
  func cut() throws {
    let request = try RawHTTP2Client.frames(1, headers(), TestService.payload).flatMap(\.bytes)
    let whole = HTTP2Frame.preface + HTTP2Frame.settings().bytes + request
    try withBystanders(service) {
      for count in stride(from: 0, to: whole.count, by: 5) {
        let client = try service.tls(.provider, protocols: ["h2"])
        try client.send(Array(whole[..<count]))
        if count.isMultiple(of: 2) { client.reset() } else { client.close() }
      }
    }
  }

  @Test("A request that arrives byte by byte is answered like any other")
  func dribbled() throws {
    let provider = try service.provider()
    let stream = provider.takeStream()
    try provider.tls.sendByteByByte(
      RawHTTP2Client.frames(stream, headers(), TestService.payload).flatMap(\.bytes))
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("A provider that closes its side still gets its answers")
  func halfClosed() throws {
    let provider = try service.provider(identity: service.directory.providerIdentity())
    let headers = try headers(authorized: false)
    try provider.ping()
    let streams = try (0..<5).map { _ in try provider.request(headers, body: TestService.payload) }
    try provider.tls.finish()
    for stream in streams { #expect(try provider.response(to: stream).status == 200) }
    #expect(try provider.end().end == .closeNotify)
  }

  @Test("A client that sends GOAWAY gets its answers, a GOAWAY and the end")
  func clientGoAway() throws {
    let provider = try service.provider()
    let stream = try provider.request(headers(), body: TestService.payload)
    try provider.send(.goAway(lastStream: 0, code: 0))
    #expect(try provider.response(to: stream).status == 200)
    let end = try provider.end()
    #expect(end.goAways.map(\.code) == [0])
    #expect(end.goAways.map(\.lastStream) == [1])
    #expect(end.end == .closeNotify)
  }
}
