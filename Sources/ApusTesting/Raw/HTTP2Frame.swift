/// An HTTP/2 frame as on the wire: RFC 9113, section 4.1.
package struct HTTP2Frame: Sendable, Hashable, CustomStringConvertible {
  package enum Kind {
    package static let data: UInt8 = 0x0
    package static let headers: UInt8 = 0x1
    package static let priority: UInt8 = 0x2
    package static let resetStream: UInt8 = 0x3
    package static let settings: UInt8 = 0x4
    package static let ping: UInt8 = 0x6
    package static let goAway: UInt8 = 0x7
    package static let windowUpdate: UInt8 = 0x8
    package static let continuation: UInt8 = 0x9
  }

  package enum Flag {
    package static let acknowledge: UInt8 = 0x1
    package static let endStream: UInt8 = 0x1
    package static let endHeaders: UInt8 = 0x4
    package static let padded: UInt8 = 0x8
    package static let priority: UInt8 = 0x20
  }

  package enum Setting {
    package static let headerTableSize: UInt16 = 1
    package static let enablePush: UInt16 = 2
    package static let maxConcurrentStreams: UInt16 = 3
    package static let initialWindowSize: UInt16 = 4
    package static let maxFrameSize: UInt16 = 5
    package static let maxHeaderListSize: UInt16 = 6
  }

  package var kind: UInt8
  package var flags: UInt8
  package var stream: UInt32
  package var payload: [UInt8]

  package init(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) {
    self.kind = kind
    self.flags = flags
    self.stream = stream
    self.payload = payload
  }

  package static let headerBytes = 9

  package var bytes: [UInt8] {
    let count = payload.count
    return [UInt8(count >> 16 & 0xff), UInt8(count >> 8 & 0xff), UInt8(count & 0xff), kind, flags]
      + bigEndian(stream) + payload
  }

  package var endsStream: Bool {
    (kind == Kind.headers || kind == Kind.data) && flags & Flag.endStream != 0
  }

  package var isAcknowledgement: Bool { flags & Flag.acknowledge != 0 }

  package var description: String {
    "frame \(kind) flags \(flags) stream \(stream) of \(payload.count) bytes"
  }

  // MARK: Frames that clients send

  /// Section 3.4.
  package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  package static func settings(_ values: [(UInt16, UInt32)] = []) -> HTTP2Frame {
    HTTP2Frame(Kind.settings, values.flatMap { bigEndian($0.0) + bigEndian($0.1) })
  }

  package static let settingsAcknowledgement = HTTP2Frame(Kind.settings, flags: Flag.acknowledge)

  package static func headers(
    _ stream: UInt32, _ headers: [RawHeader], endsStream: Bool = false, endsHeaders: Bool = true
  ) -> HTTP2Frame {
    HTTP2Frame(
      Kind.headers,
      flags: (endsStream ? Flag.endStream : 0) | (endsHeaders ? Flag.endHeaders : 0),
      stream: stream, HPACKLiteral.block(headers))
  }

  package static func data(
    _ stream: UInt32, _ payload: [UInt8], endsStream: Bool = true
  ) -> HTTP2Frame {
    HTTP2Frame(Kind.data, flags: endsStream ? Flag.endStream : 0, stream: stream, payload)
  }

  package static func resetStream(_ stream: UInt32, code: UInt32) -> HTTP2Frame {
    HTTP2Frame(Kind.resetStream, stream: stream, bigEndian(code))
  }

  /// `opaque` has 8 bytes.
  package static func ping(_ opaque: [UInt8]) -> HTTP2Frame { HTTP2Frame(Kind.ping, opaque) }

  package static func windowUpdate(_ stream: UInt32, by increment: UInt32) -> HTTP2Frame {
    HTTP2Frame(Kind.windowUpdate, stream: stream, bigEndian(increment))
  }

  package static func goAway(lastStream: UInt32, code: UInt32) -> HTTP2Frame {
    HTTP2Frame(Kind.goAway, bigEndian(lastStream) + bigEndian(code))
  }

  // MARK: Frames that servers send

  /// The values of a SETTINGS frame by identifier.
  package var settingValues: [UInt16: UInt32] {
    var values: [UInt16: UInt32] = [:]
    for start in stride(from: 0, to: payload.count - 5, by: 6) {
      let identifier = UInt16(payload[start]) << 8 | UInt16(payload[start + 1])
      values[identifier] = number(at: start + 2)
    }
    return values
  }

  /// The error code of RST_STREAM.
  package var resetCode: UInt32? { kind == Kind.resetStream ? number(at: 0) : nil }

  /// GOAWAY's last stream, error code and debug data.
  package var goAway: RawGoAway? {
    guard kind == Kind.goAway, payload.count >= 8 else { return nil }
    return RawGoAway(
      lastStream: number(at: 0), code: number(at: 4),
      debugData: String(decoding: payload[8...], as: UTF8.self))
  }

  private func number(at offset: Int) -> UInt32 {
    payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }
}

/// The contents of a GOAWAY frame: RFC 9113, section 6.8.
package struct RawGoAway: Sendable, Hashable {
  package var lastStream: UInt32
  package var code: UInt32
  package var debugData: String

  package init(lastStream: UInt32, code: UInt32, debugData: String) {
    self.lastStream = lastStream
    self.code = code
    self.debugData = debugData
  }
}

/// The bytes one after the other. In a debug build `joined()` takes a call or more for each byte.
package func joined(_ parts: some Sequence<[UInt8]>) -> [UInt8] {
  parts.reduce(into: []) { $0 += $1 }
}

/// `value` with the most significant byte first.
package func bigEndian<Integer: FixedWidthInteger>(_ value: Integer) -> [UInt8] {
  stride(from: Integer.bitWidth - 8, through: 0, by: -8).map {
    UInt8(truncatingIfNeeded: value >> Integer($0))
  }
}

extension HTTP2Frame {
  /// Takes the first frame from received bytes; nil if it is not complete.
  init?(takingFrom input: inout [UInt8]) {
    guard input.count >= Self.headerBytes else { return nil }
    let count = Int(input[0]) << 16 | Int(input[1]) << 8 | Int(input[2])
    guard input.count >= Self.headerBytes + count else { return nil }
    let stream = input[5..<9].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    self.init(
      input[3], flags: input[4], stream: stream,
      Array(input[Self.headerBytes..<Self.headerBytes + count]))
    input.removeFirst(Self.headerBytes + count)
  }
}
