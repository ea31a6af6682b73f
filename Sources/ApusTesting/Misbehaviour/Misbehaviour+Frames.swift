// Frames that are wrong in themselves, in the order of RFC 9113, section 6. Numbers without a name are types of frames.

extension Misbehaviour {
  /// A stream that no client opens in a test.
  private static let unopened: UInt32 = 0x7fff_fff1
  private static let zeros = [UInt8](repeating: 0, count: 20_000)

  private static func frame(
    _ kind: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []
  ) -> [UInt8] {
    HTTP2Frame(kind, flags: flags, stream: stream, payload).bytes
  }

  private static func setting(_ identifier: UInt16, _ value: UInt32) -> [UInt8] {
    HTTP2Frame.settings([(identifier, value)]).bytes
  }

  static let sizes: [Misbehaviour] = [
    violation("a frame of 16,385 bytes") { _ in frame(0xee, Array(zeros[..<16_385])) },
    violation("the head of a frame of 16 MiB") { _ in [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1] },
    violation("a response of HTTP/1.1") { _ in Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8) },
    violation("PRIORITY of 4 bytes") { frame(0x2, stream: $0.victim, [0, 0, 0, 0]) },
    violation("RST_STREAM of 3 bytes") { frame(0x3, stream: $0.victim, [0, 0, 8]) },
    violation("RST_STREAM of 5 bytes") { frame(0x3, stream: $0.victim, [0, 0, 0, 8, 0]) },
    violation("SETTINGS of 5 bytes") { _ in frame(0x4, [0, 4, 0, 0, 0]) },
    violation("an acknowledgement with content") { _ in frame(0x4, flags: 1, [0, 4, 0, 0, 0, 0]) },
    violation("PING of 7 bytes") { _ in frame(0x6, [0, 0, 0, 0, 0, 0, 0]) },
    violation("GOAWAY of 7 bytes") { _ in frame(0x7, [0, 0, 0, 0, 0, 0, 0]) },
    violation("WINDOW_UPDATE of 3 bytes") { _ in frame(0x8, [0, 0, 1]) },
    violation("WINDOW_UPDATE of 5 bytes") { frame(0x8, stream: $0.victim, [0, 0, 0, 1, 0]) },
    violation("padding longer than DATA") { frame(0x0, flags: 8, stream: $0.victim, [2, 1]) },
    violation("DATA without its padding's length") { frame(0x0, flags: 8, stream: $0.victim) },
    violation("padding longer than HEADERS") {
      frame(0x1, flags: 0xc, stream: $0.victim, [2, 0x88])
    },
    violation("HEADERS too short for a priority") {
      frame(0x1, flags: 0x24, stream: $0.victim, [0, 0, 0, 0])
    },
  ]

  static let streams: [Misbehaviour] =
    [("DATA", 0x0, [1]), ("HEADERS", 0x1, [0x88]), ("RST_STREAM", 0x3, [0, 0, 0, 8])]
    .flatMap { (name: String, kind: UInt8, payload: [UInt8]) in
      [("stream 0", 0), ("an even stream", 2), ("a stream nobody opened", unopened)]
        .map { (place: String, stream: UInt32) in
          violation("\(name) on \(place)") { _ in frame(kind, flags: 4, stream: stream, payload) }
        }
    } + [
      violation("PRIORITY on stream 0") { _ in frame(0x2, [0, 0, 0, 0, 1]) },
      violation("SETTINGS on a stream") { frame(0x4, stream: $0.victim) },
      violation("PUSH_PROMISE") {
        frame(0x5, flags: 4, stream: $0.victim, [0, 0, 0, 2, 0x82, 0x87, 0x84])
      },
      violation("PING on a stream") { frame(0x6, stream: $0.victim, Array(zeros[..<8])) },
      violation("GOAWAY on a stream") { frame(0x7, stream: $0.victim, Array(zeros[..<8])) },
      violation("WINDOW_UPDATE on a stream nobody opened") { _ in
        HTTP2Frame.windowUpdate(unopened, by: 1).bytes
      },
      violation("CONTINUATION on stream 0") { _ in frame(0x9, flags: 4, [0x88]) },
      violation("a complete response on a stream nobody opened") { _ in
        HTTP2Frame.headers(unopened, [RawHeader(":status", "200")], endsStream: true).bytes
      },
    ]

  static let settings: [Misbehaviour] = [
    violation("two acknowledgements") { _ in frame(0x4, flags: 1) + frame(0x4, flags: 1) },
    violation("ENABLE_PUSH of 1") { _ in setting(2, 1) },
    violation("ENABLE_PUSH of 2") { _ in setting(2, 2) },
    violation("a window of 2^31") { _ in setting(4, 1 << 31) },
    violation("frames of 16,383 bytes") { _ in setting(5, 16_383) },
    violation("frames of 2^24 bytes") { _ in setting(5, 1 << 24) },
    harmless("empty SETTINGS", isFirst: true) { _ in frame(0x4) },
    harmless("an unknown setting", isFirst: true) { _ in setting(0xfff0, 0xffff_ffff) },
    harmless("no header table", isFirst: true) { _ in setting(1, 0) },
    harmless("the largest header table", isFirst: true) { _ in setting(1, 0xffff_ffff) },
    harmless("no streams for a while", isFirst: true) { _ in setting(3, 0) },
    harmless("2^32-1 streams", isFirst: true) { _ in setting(3, 0xffff_ffff) },
    harmless("no window for a while", isFirst: true) { _ in setting(4, 0) },
    harmless("windows of 2^31-1", isFirst: true) { _ in setting(4, 0x7fff_ffff) },
    harmless("a header list of 0 bytes", isFirst: true) { _ in setting(6, 0) },
  ]

  static let windows: [Misbehaviour] = [
    violation("WINDOW_UPDATE of 0") { _ in HTTP2Frame.windowUpdate(0, by: 0).bytes },
    violation("a connection window beyond 2^31-1") { _ in
      HTTP2Frame.windowUpdate(0, by: 0x7fff_ffff).bytes
    },
    onStream("WINDOW_UPDATE of 0 on the stream", .streamError, .streamError) {
      HTTP2Frame.windowUpdate($0.victim, by: 0).bytes
    },
    onStream(
      "a stream window beyond 2^31-1", .streamError, .streamError, releasesBody: true
    ) {
      HTTP2Frame.windowUpdate($0.victim, by: 0x7fff_ffff).bytes
        + HTTP2Frame.windowUpdate($0.victim, by: 0x7fff_ffff).bytes
    },
    onStream(
      "a window, and at once a response without a status", .streamError, .streamError,
      releasesBody: true
    ) {
      HTTP2Frame.windowUpdate($0.victim, by: 0x7000_0000).bytes
        + HTTP2Frame.headers($0.victim, [RawHeader("a", "b")]).bytes
    },
  ]

  static let blocks: [Misbehaviour] =
    [
      ("index 0", [0x80]), ("an index beyond both tables", [0xbe]),
      ("a name beyond both tables", [0x7e, 1, 0x61]), ("an integer cut off", [0xff]),
      ("an integer above 2^28", [0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
      ("a string cut off", [0x08, 3, 0x32, 0x30]),
      ("a Huffman code with EOS", [0x08, 0x84, 0xff, 0xff, 0xff, 0xff]),
      ("Huffman padding of a byte", [0x08, 0x82, 0x1f, 0xff]),
      ("a table larger than allowed", [0x3f, 0xe2, 0x1f, 0x88]),
      ("a table size after a field", [0x88, 0x20]),
    ].map { (name: String, block: [UInt8]) in
      violation(name) { frame(0x1, flags: 4, stream: $0.victim, block) }
    } + [
      violation("a block that repeats a long field") {
        frame(
          0x1, flags: 4, stream: $0.victim,
          [0x40, 1, 0x61, 0x7f, 0x81, 0x16] + zeros[..<2944].map { _ in 0x61 }
            + zeros[..<12_000].map { _ in 0xbe })
      },
      violation("CONTINUATION without HEADERS") { frame(0x9, flags: 4, stream: $0.victim, [0x88]) },
      violation("another stream's CONTINUATION") {
        frame(0x1, stream: $0.victim, [0x88]) + frame(0x9, flags: 4, stream: $0.bystander)
      },
      violation("DATA within a block") {
        frame(0x1, stream: $0.victim, [0x88]) + frame(0x0, stream: $0.victim, [1])
      },
      violation("PING within a block") {
        frame(0x1, stream: $0.victim, [0x88]) + frame(0x6, Array(zeros[..<8]))
      },
      violation("an unknown frame within a block") {
        frame(0x1, stream: $0.victim, [0x88]) + frame(0xee)
      },
      violation("CONTINUATION without an end") { streams in
        frame(0x1, stream: streams.victim, [0x88])
          + (0..<100).flatMap { _ in frame(0x9, stream: streams.victim) }
      },
    ]

  static let others: [Misbehaviour] = [
    harmless("flags without a meaning", isFirst: true) { _ in
      frame(0x4, flags: 0xfe) + frame(0x6, flags: 0xfe, Array(zeros[..<8]))
        + frame(0x8, flags: 0xff, [0, 0, 0, 1])
    },
    harmless("an unknown frame") { _ in frame(0xee, flags: 0xff, [1, 2, 3]) },
    harmless("an unknown frame on the stream") {
      frame(0xee, flags: 0xff, stream: $0.victim, [1])
    },
    harmless("ALTSVC and ORIGIN") { _ in frame(0xa, [0, 0]) + frame(0xc) },
    harmless("PRIORITY") { frame(0x2, stream: $0.victim, [0, 0, 0, 0, 1]) },
    harmless("PRIORITY of a stream nobody opened") { _ in
      frame(0x2, stream: unopened, [0, 0, 0, 0, 1])
    },
    harmless("the answer to a PING that nobody sent") { _ in
      frame(0x6, flags: 1, Array(zeros[..<8]))
    },
    harmless("100 PINGs") { _ in
      (0..<100).flatMap { _ in frame(0x6, Array(zeros[..<8])) }
    },
    violation("10,000 PINGs whose answers are not read") { _ in
      (0..<10_000).flatMap { _ in frame(0x6, Array(zeros[..<8])) }
    },
    violation("10,000 SETTINGS whose acknowledgements are not read") { _ in
      (0..<10_000).flatMap { _ in frame(0x4) }
    },
    closing("the end") { _ in [] },
    closing("the end within a frame's head") { _ in [0, 0, 1, 1] },
    closing("the end within HEADERS") { [0, 0, 4, 1, 5] + bigEndian($0.victim) + [0x88] },
    closing("the end within DATA") { [0, 0, 4, 0, 1] + bigEndian($0.victim) + [0x7b] },
    closing("the end within SETTINGS") { _ in [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3] },
    closing("the end within GOAWAY") { _ in [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0] },
  ]
}
