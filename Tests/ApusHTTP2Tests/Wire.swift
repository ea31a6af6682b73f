import ApusModel

@testable import ApusHTTP2

// Frames written and read by hand, from RFC 9113 and RFC 7541, without the code under test.

/// RFC 9113, section 3.4.
let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

enum Kind {
  static let data: UInt8 = 0
  static let headers: UInt8 = 1
  static let priority: UInt8 = 2
  static let reset: UInt8 = 3
  static let settings: UInt8 = 4
  static let ping: UInt8 = 6
  static let goAway: UInt8 = 7
  static let windowUpdate: UInt8 = 8
  static let continuation: UInt8 = 9
}

enum Flag {
  static let acknowledge: UInt8 = 0x1
  static let endStream: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4
}

struct Frame: Equatable, CustomStringConvertible {
  var type: UInt8
  var flags: UInt8
  var stream: UInt32
  var payload: [UInt8]

  var description: String {
    "(type \(type) flags \(flags) stream \(stream) payload \(payload.prefix(80)))"
  }
}

func big(_ value: UInt32) -> [UInt8] {
  [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
}

func frame(_ type: UInt8, _ flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = [])
  -> [UInt8]
{
  let length = payload.count
  return [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), type, flags]
    + big(stream) + payload
}

/// Splits bytes into frames; nil if the last one is incomplete.
func frames(_ bytes: [UInt8]) -> [Frame]? {
  var result: [Frame] = []
  var rest = bytes[...]
  while !rest.isEmpty {
    guard rest.count >= 9 else { return nil }
    let head = Array(rest.prefix(9))
    let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
    guard rest.count >= 9 + length else { return nil }
    let stream = head[5...8].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    result.append(
      Frame(
        type: head[3], flags: head[4], stream: stream,
        payload: Array(rest.dropFirst(9).prefix(length))))
    rest = rest.dropFirst(9 + length)
  }
  return result
}

/// RFC 7541, section 5.1, with a prefix of 7 bits.
private func length(_ count: Int) -> [UInt8] {
  guard count >= 127 else { return [UInt8(count)] }
  var bytes: [UInt8] = [127]
  var rest = count - 127
  while rest >= 128 {
    bytes.append(UInt8(rest & 127 | 128))
    rest >>= 7
  }
  return bytes + [UInt8(rest)]
}

/// RFC 7541, section 6.2.2: a literal without indexing and a new name, no Huffman code.
func literal(_ name: String, _ value: String) -> [UInt8] {
  [0x00] + length(name.utf8.count) + name.utf8 + length(value.utf8.count) + value.utf8
}

func literal(_ name: String, bytes: [UInt8]) -> [UInt8] {
  [0x00] + length(name.utf8.count) + name.utf8 + length(bytes.count) + bytes
}

/// Appendix A: 0x83 is `:method: POST`, 0x87 `:scheme: https`; 0x04 and 0x01 are literals named `:path`, `:authority`.
func requestBlock(
  path: String = "/3/device/00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0",
  authority: String? = "localhost", _ fields: [UInt8] = []
) -> [UInt8] {
  var block: [UInt8] = [0x83, 0x87, 0x04] + length(path.utf8.count) + path.utf8
  if let authority { block += [0x01] + length(authority.utf8.count) + authority.utf8 }
  return block + fields
}

func headers(_ stream: UInt32, _ block: [UInt8], endStream: Bool = false) -> [UInt8] {
  frame(
    Kind.headers, Flag.endHeaders | (endStream ? Flag.endStream : 0), stream: stream, block)
}

func data(_ stream: UInt32, _ bytes: [UInt8], endStream: Bool = true) -> [UInt8] {
  frame(Kind.data, endStream ? Flag.endStream : 0, stream: stream, bytes)
}

/// A complete device request.
func request(_ stream: UInt32, body: [UInt8] = Array("{\"aps\":{}}".utf8)) -> [UInt8] {
  headers(stream, requestBlock()) + data(stream, body)
}

/// A server session with its pool, fed and read as bytes.
struct Server {
  let pool = HTTP2RequestPool()
  let session: HTTP2ServerSession

  init(_ configuration: HTTP2ServerSession.Configuration = .trusted, now: UInt64 = 1000) {
    session = HTTP2ServerSession(
      configuration: configuration, pool: pool, nowMilliseconds: now)
  }

  /// A session with the client's preface and acknowledgement, whose first output was taken.
  static func ready(_ configuration: HTTP2ServerSession.Configuration = .trusted) -> Server {
    let server = Server(configuration)
    _ = server.output()
    _ = server.receive(
      preface + frame(Kind.settings) + frame(Kind.settings, Flag.acknowledge))
    _ = server.output()
    return server
  }

  @discardableResult
  func receive(_ bytes: [UInt8], at now: UInt64 = 1000) -> HTTP2SessionResult {
    session.receive(bytes.span, nowMilliseconds: now)
  }

  func outputBytes(limit: Int = .max) -> [UInt8] {
    var bytes: [UInt8] = []
    session.pendingOutput(into: &bytes, limit: limit)
    return bytes
  }

  func output() -> [Frame] { frames(outputBytes()) ?? [] }

  /// Answers every waiting request with 200, and returns their streams.
  @discardableResult
  func answerAll() -> [Int32] {
    var streams: [Int32] = []
    while let request = session.nextRequest() {
      streams.append(request.streamID)
      _ = ok(request.streamID)
      session.release(request)
    }
    return streams
  }

  func ok(_ stream: Int32) -> Bool {
    let id = Array("EC1BF194-B3B2-424A-89A9-5A918A6E6B5D".utf8)
    return session.respond(
      streamID: stream, status: 200, apnsID: id.span, apnsUniqueID: Span(), body: Span())
  }

  func refuse(_ stream: Int32, status: UInt16 = 400, body: String = "{\"reason\":\"BadPath\"}")
    -> Bool
  {
    let id = Array("EC1BF194-B3B2-424A-89A9-5A918A6E6B5D".utf8)
    let bytes = Array(body.utf8)
    return session.respond(
      streamID: stream, status: status, apnsID: id.span, apnsUniqueID: Span(), body: bytes.span)
  }
}

/// The parsed GOAWAY among frames.
struct GoAway: Equatable {
  var last: UInt32
  var code: UInt32
  var text: String

  init(last: UInt32, code: UInt32, text: String) {
    self.last = last
    self.code = code
    self.text = text
  }

  init?(_ frames: [Frame]) {
    guard let frame = frames.last(where: { $0.type == Kind.goAway }) else { return nil }
    last = frame.payload[0..<4].reduce(0) { $0 << 8 | UInt32($1) }
    code = frame.payload[4..<8].reduce(0) { $0 << 8 | UInt32($1) }
    text = String(decoding: frame.payload[8...], as: UTF8.self)
  }
}

/// The error code of the RST_STREAM of a stream.
func resetCode(_ frames: [Frame], _ stream: UInt32) -> UInt32? {
  frames.first { $0.type == Kind.reset && $0.stream == stream }
    .map { $0.payload.reduce(0) { $0 << 8 | UInt32($1) } }
}
