/// HTTP/2 frames of a service, byte for byte as in RFC 9113, section 4.1.
enum Frames {
  /// SETTINGS with SETTINGS_MAX_CONCURRENT_STREAMS (0x3).
  static func settings(streams: UInt8) -> [UInt8] {
    [0, 0, 6, 0x4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]
  }

  /// SETTINGS with SETTINGS_MAX_CONCURRENT_STREAMS and SETTINGS_INITIAL_WINDOW_SIZE (0x4).
  static func settings(streams: UInt8, window: UInt16) -> [UInt8] {
    [0, 0, 12, 0x4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]
      + [0, 4, 0, 0, UInt8(window >> 8), UInt8(window & 0xff)]
  }

  /// WINDOW_UPDATE; stream 0 is the connection.
  static func windowUpdate(_ stream: UInt8, by bytes: UInt16) -> [UInt8] {
    [0, 0, 4, 0x8, 0, 0, 0, 0, stream, 0, 0, UInt8(bytes >> 8), UInt8(bytes & 0xff)]
  }

  /// PING with ACK (0x1) and the eight zero bytes of the request.
  static let pong: [UInt8] = [0, 0, 8, 0x6, 0x1, 0, 0, 0, 0] + [UInt8](repeating: 0, count: 8)

  /// HEADERS with END_STREAM and END_HEADERS; 0x88 is `:status: 200` of HPACK's static table.
  static func ok(_ stream: UInt8) -> [UInt8] { [0, 0, 1, 0x1, 0x5, 0, 0, 0, stream, 0x88] }

  /// HEADERS with a literal value for `:status` (index 8), then the body in one DATA frame with END_STREAM.
  static func answer(_ stream: UInt8, status: String, body: String) -> [UInt8] {
    [0, 0, 5, 0x1, 0x4, 0, 0, 0, stream, 0x08, 3] + Array(status.utf8)
      + [0, 0, UInt8(body.utf8.count), 0x0, 0x1, 0, 0, 0, stream] + Array(body.utf8)
  }

  /// The same with an additional field, as a literal that is not indexed (RFC 7541, section 6.2.2).
  static func answer(
    _ stream: UInt8, status: String, field: String, _ value: String, body: String
  ) -> [UInt8] {
    let block =
      [0x08, 3] + Array(status.utf8) + [0x00, UInt8(field.utf8.count)] + Array(field.utf8)
      + [UInt8(value.utf8.count)] + Array(value.utf8)
    return [0, 0, UInt8(block.count), 0x1, 0x4, 0, 0, 0, stream] + block
      + [0, 0, UInt8(body.utf8.count), 0x0, 0x1, 0, 0, 0, stream] + Array(body.utf8)
  }

  /// HEADERS with these fields as literals that are not indexed, then DATA frames with the body, of at most 16,384
  /// bytes each. The status is the first field.
  static func answer(_ stream: UInt8, _ fields: [(String, String)], body: String) -> [UInt8] {
    var bytes: [UInt8] = []
    func put(_ type: UInt8, _ flags: UInt8, _ payload: some Collection<UInt8>) {
      let count = payload.count
      bytes += [UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)]
      bytes += [type, flags, 0, 0, 0, stream] + payload
    }
    let block = fields.flatMap { name, value -> [UInt8] in
      [0x00, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)]
        + Array(value.utf8)
    }
    put(0x1, body.isEmpty ? 0x5 : 0x4, block)
    var rest = Array(body.utf8)[...]
    while !rest.isEmpty {
      let piece = rest.prefix(16_384)
      rest = rest.dropFirst(16_384)
      put(0x0, rest.isEmpty ? 0x1 : 0x0, piece)
    }
    return bytes
  }

  static func reset(_ stream: UInt8, code: UInt8) -> [UInt8] {
    [0, 0, 4, 0x3, 0, 0, 0, 0, stream, 0, 0, 0, code]
  }

  /// GOAWAY without an error.
  static func goAway(last: UInt8, debug: String = "") -> [UInt8] {
    [0, 0, UInt8(8 + debug.utf8.count), 0x7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0]
      + Array(debug.utf8)
  }

  struct Frame: Equatable {
    var type: UInt8
    var flags: UInt8
    var stream: UInt32
    var payload: [UInt8]
  }

  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  /// Parses a client's output.
  static func read(_ bytes: [UInt8]) -> [Frame] {
    var rest = bytes[...]
    if rest.starts(with: preface) { rest.removeFirst(preface.count) }
    var frames: [Frame] = []
    while rest.count >= 9 {
      let head = Array(rest.prefix(9))
      let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
      let stream = head[5...8].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      frames.append(
        Frame(
          type: head[3], flags: head[4], stream: stream,
          payload: Array(rest.dropFirst(9).prefix(count))))
      rest.removeFirst(9 + count)
    }
    return frames
  }

  /// The streams that a client opened in its output.
  static func opened(_ bytes: [UInt8]) -> [UInt32] {
    read(bytes).filter { $0.type == 0x1 }.map(\.stream)
  }
}
