/// An answer, with its frames.
package struct RawResponse: Sendable {
  package var headers: [RawHeader]
  package var body: [UInt8]
  package var frames: [HTTP2Frame]

  package subscript(name: String) -> String? { headers.first { $0.name == name }?.text }

  package var status: Int? { self[":status"].flatMap { Int($0) } }
  package var bodyText: String { String(decoding: body, as: UTF8.self) }
}

/// The outcome of a request.
package enum RawOutcome: Sendable {
  case answered(RawResponse)
  /// RST_STREAM with this error code.
  case reset(UInt32)
}

/// The provider's side of HTTP/2, frame by frame.
///
/// Sends what a test sends and keeps what arrives. On its own it only acknowledges SETTINGS, unless told not to.
package final class RawHTTP2Client {
  package let tls: RawTLSClient
  package var acknowledgesSettings = true
  /// Everything that was received, in order.
  package private(set) var received: [HTTP2Frame] = []
  private var decoder = HPACKDecoder()
  private var open: [UInt32: RawResponse] = [:]
  private var finished: [UInt32: RawOutcome] = [:]
  private var nextStream: UInt32 = 1

  /// Uses a connection after its handshake; sends nothing yet.
  package init(_ tls: RawTLSClient) { self.tls = tls }

  // MARK: Output

  /// The preface and an empty SETTINGS frame.
  package func begin(_ settings: [(UInt16, UInt32)] = []) throws {
    try tls.send(HTTP2Frame.preface + HTTP2Frame.settings(settings).bytes)
  }

  package func send(_ frames: HTTP2Frame...) throws { try send(frames) }

  package func send(_ frames: [HTTP2Frame]) throws { try tls.send(frames.flatMap(\.bytes)) }

  /// The number of the next stream to open.
  package func takeStream() -> UInt32 {
    defer { nextStream += 2 }
    return nextStream
  }

  /// HEADERS, and the body in DATA frames of up to 16 KiB. Returns the stream.
  package func request(_ headers: [RawHeader], body: [UInt8]) throws -> UInt32 {
    let stream = takeStream()
    try send(Self.frames(stream, headers, body))
    return stream
  }

  package static func frames(
    _ stream: UInt32, _ headers: [RawHeader], _ body: [UInt8]
  ) -> [HTTP2Frame] {
    // The initial SETTINGS_MAX_FRAME_SIZE: RFC 9113, section 6.5.2.
    let starts = Array(stride(from: 0, to: body.count, by: 16_384))
    return [.headers(stream, headers, endsStream: body.isEmpty)]
      + starts.map { start in
        let end = min(start + 16_384, body.count)
        return .data(stream, Array(body[start..<end]), endsStream: end == body.count)
      }
  }

  /// Sends a request and waits for its answer.
  package func exchange(_ headers: [RawHeader], body: [UInt8]) throws -> RawResponse {
    try response(to: request(headers, body: body))
  }

  // MARK: Input

  /// The next frame; nil if the connection ended between two frames.
  package func nextFrame(
    deadline: Deadline = Deadline(), awaiting what: @autoclosure () -> String = "a frame"
  ) throws -> HTTP2Frame? {
    guard
      let head = try tls.take(HTTP2Frame.headerBytes, deadline: deadline, awaiting: what())
    else { return nil }
    let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
    let stream = head[5...].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7fff_ffff
    let payload =
      length == 0
      ? [] : try tls.take(length, deadline: deadline, awaiting: "the rest of a frame")
    let frame = HTTP2Frame(head[3], flags: head[4], stream: stream, payload ?? [])
    received.append(frame)
    try record(frame)
    return frame
  }

  private func record(_ frame: HTTP2Frame) throws {
    switch frame.kind {
    case HTTP2Frame.Kind.settings:
      if !frame.isAcknowledgement, acknowledgesSettings { try send(.settingsAcknowledgement) }
    case HTTP2Frame.Kind.headers:
      guard frame.flags & HTTP2Frame.Flag.endHeaders != 0 else {
        throw RawFault.unexpected("an answer's header block in several frames")
      }
      let headers = try decoder.decode(frame.payload)
      open[frame.stream, default: RawResponse(headers: [], body: [], frames: [])].headers += headers
      add(frame)
    case HTTP2Frame.Kind.data:
      open[frame.stream]?.body += frame.payload
      add(frame)
    case HTTP2Frame.Kind.resetStream:
      // After an early answer, RST_STREAM only stops the rest of the request: RFC 9113, section 8.1.
      if finished[frame.stream] == nil, let code = frame.resetCode {
        finished[frame.stream] = .reset(code)
        open[frame.stream] = nil
      }
    default: break
    }
  }

  private func add(_ frame: HTTP2Frame) {
    open[frame.stream]?.frames.append(frame)
    guard frame.endsStream, let response = open.removeValue(forKey: frame.stream) else { return }
    finished[frame.stream] = .answered(response)
  }

  /// Waits for the outcome of a stream.
  package func outcome(
    of stream: UInt32, deadline: Deadline = Deadline()
  ) throws -> RawOutcome {
    while true {
      if let outcome = finished.removeValue(forKey: stream) { return outcome }
      let what = "the answer on stream \(stream)"
      guard try nextFrame(deadline: deadline, awaiting: what) != nil else {
        throw RawFault.ended(tls.end ?? .endOfStream, awaiting: what)
      }
    }
  }

  package func response(
    to stream: UInt32, deadline: Deadline = Deadline()
  ) throws -> RawResponse {
    switch try outcome(of: stream, deadline: deadline) {
    case .answered(let response): return response
    case .reset(let code):
      throw RawFault.unexpected("stream \(stream) was reset with code \(code)")
    }
  }

  /// Waits for a frame that `matches`; frames already received count.
  package func frame(
    deadline: Deadline = Deadline(), awaiting what: String, where matches: (HTTP2Frame) -> Bool
  ) throws -> HTTP2Frame {
    if let frame = received.first(where: matches) { return frame }
    while let frame = try nextFrame(deadline: deadline, awaiting: what) {
      if matches(frame) { return frame }
    }
    throw RawFault.ended(tls.end ?? .endOfStream, awaiting: what)
  }

  /// Reads until the connection ends; returns every GOAWAY received on it, in order, and how it ended. Closes this side
  /// too.
  package func end(deadline: Deadline = Deadline()) throws -> (goAways: [RawGoAway], end: RawEnd) {
    while try nextFrame(deadline: deadline, awaiting: "the end of the connection") != nil {}
    tls.close()
    return (received.compactMap(\.goAway), tls.end ?? .endOfStream)
  }

  /// Waits for the answer to a PING, which proves that everything sent before was processed.
  package func ping() throws {
    let opaque = bigEndian(0x7069_6e67_0000_0000 | UInt64(received.count))
    try send(.ping(opaque))
    _ = try frame(awaiting: "the answer to a PING") {
      $0.kind == HTTP2Frame.Kind.ping && $0.isAcknowledgement && $0.payload == opaque
    }
  }
}
