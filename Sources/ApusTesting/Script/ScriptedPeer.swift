import ApusModel

/// The service's end of one HTTP/2 connection, in plaintext, that follows a script: bytes in, bytes out. It encodes its
/// own frames, independently of the library under test.
///
/// It counts the accepted notifications.
package struct ScriptedPeer: Sendable {
  /// A complete request.
  package struct Request: Sendable, Hashable {
    package var stream: UInt32
    /// The `apns-id`.
    package var id: String
  }

  /// Bytes to send.
  package private(set) var output: [UInt8] = []
  /// Complete requests without an action.
  package private(set) var requests: [Request] = []
  /// The ids of the accepted notifications, in order, including repetitions.
  package private(set) var taken: [String] = []
  /// Whether to end the connection now.
  package private(set) var isCut = false
  /// Whether to end the connection once ``output`` was read: this side stops sending, but still reads.
  package private(set) var isHalfClosed = false
  /// The `date` of answers (RFC 9110, section 6.6.1); nil for none.
  package var date: String?
  /// What the client did wrong; nil for a correct client.
  package private(set) var complaint: String?
  /// Unanswered PINGs.
  package private(set) var pings: [[UInt8]] = []
  /// Stream limits that were announced and not acknowledged yet; below, the last acknowledged one.
  private var limits: [Int] = []
  private var acknowledgedLimit = Int.max

  private var input: [UInt8] = []
  private var hasPreface = false
  private var decoder = HPACKDecoder()
  private var ids: [UInt32: String] = [:]
  private var openStreams: Set<UInt32> = []
  private var lastStream: UInt32 = 0
  /// Streams above it were declared unprocessed.
  private var goAwayStream = UInt32.max
  /// The highest stream with an accepted notification; no GOAWAY may contradict it.
  private var highestTaken: UInt32 = 0
  private var connectionWindow = 65_535

  private static let idName = HeaderName.apnsID.text.description
  /// The id of a broadcast.
  private static let requestIDName = HeaderName.apnsRequestID.text.description
  private static let uniqueIDName = HeaderName.apnsUniqueID.text.description

  package init() {}

  // MARK: The client's bytes

  package mutating func receive(_ bytes: [UInt8]) {
    input += bytes
    if !hasPreface {
      guard input.count >= HTTP2Frame.preface.count else { return }
      if !input.starts(with: HTTP2Frame.preface) { complaint = "no preface" }
      input.removeFirst(HTTP2Frame.preface.count)
      hasPreface = true
    }
    while let frame = HTTP2Frame(takingFrom: &input) { take(frame) }
  }

  private mutating func take(_ frame: HTTP2Frame) {
    switch frame.kind {
    case HTTP2Frame.Kind.headers: takeHeaders(frame)
    case HTTP2Frame.Kind.data:
      connectionWindow -= frame.payload.count
      if connectionWindow < 0 { complaint = "more bytes than the window allows" }
      if frame.endsStream { finish(frame.stream) }
    case HTTP2Frame.Kind.settings where frame.isAcknowledgement:
      if !limits.isEmpty { acknowledgedLimit = limits.removeFirst() }
    case HTTP2Frame.Kind.settings: output += HTTP2Frame.settingsAcknowledgement.bytes
    case HTTP2Frame.Kind.ping where !frame.isAcknowledgement: pings.append(frame.payload)
    case HTTP2Frame.Kind.resetStream: openStreams.remove(frame.stream)
    default: break
    }
  }

  private mutating func takeHeaders(_ frame: HTTP2Frame) {
    guard let headers = try? decoder.decode(frame.payload) else {
      complaint = "an unreadable header block"
      return
    }
    if frame.stream <= lastStream { complaint = "stream \(frame.stream) after \(lastStream)" }
    lastStream = frame.stream
    openStreams.insert(frame.stream)
    if openStreams.count > acknowledgedLimit {
      complaint = "\(openStreams.count) streams where \(acknowledgedLimit) are allowed"
    }
    let id = headers.first { $0.name == Self.idName || $0.name == Self.requestIDName }
    ids[frame.stream] = id?.text ?? ""
    if frame.endsStream { finish(frame.stream) }
  }

  private mutating func finish(_ stream: UInt32) {
    guard stream <= goAwayStream, let id = ids.removeValue(forKey: stream) else { return }
    requests.append(Request(stream: stream, id: id))
  }

  // MARK: Actions

  /// Performs an action for a request, which is then no longer waiting.
  package mutating func perform(_ action: PeerAction, on request: Request) {
    requests.removeAll { $0 == request }
    let stream = request.stream
    switch action {
    case .accept(let hasUniqueID, let hasBody):
      take(request)
      var headers = [RawHeader(":status", "200"), RawHeader(Self.idName, request.id)]
      if hasUniqueID { headers.append(RawHeader(Self.uniqueIDName, request.id)) }
      answer(stream, headers, hasBody ? "{}" : nil)
    case .reject(let status, let reason, let retryAfter):
      var headers = [RawHeader(":status", "\(status)"), RawHeader(Self.idName, request.id)]
      if let retryAfter { headers.append(RawHeader("retry-after", retryAfter)) }
      let time = status == 410 ? ",\"timestamp\":1700000000123" : ""
      answer(stream, headers, "{\"reason\":\"\(reason)\"\(time)}")
    case .garbage(let status, let body):
      answer(stream, [RawHeader(":status", "\(status)")], body)
    case .headersOnly(let status):
      if status == 200 { take(request) }
      answer(stream, [RawHeader(":status", "\(status)")], nil)
    case .half(let status):
      if status == 200 { take(request) }
      output += HTTP2Frame.headers(stream, [RawHeader(":status", "\(status)")]).bytes
    case .reset(let code, let isTaken):
      if isTaken, code != 7 { take(request) }
      openStreams.remove(stream)
      output += HTTP2Frame.resetStream(stream, code: code).bytes
    case .ignore(let isTaken):
      if isTaken { take(request) }
    case .goAway(let includesThis, let isTaken, let debug):
      let last = includesThis ? stream : stream - 1
      if includesThis, isTaken, stream <= goAwayStream { take(request) }
      goAway(last: last, debug: debug)
    case .cut(let isTaken):
      if isTaken { take(request) }
      isCut = true
    case .halfClose(let isTaken):
      if isTaken { take(request) }
      halfClose()
    }
  }

  private mutating func take(_ request: Request) {
    taken.append(request.id)
    highestTaken = max(highestTaken, request.stream)
  }

  private mutating func answer(_ stream: UInt32, _ headers: [RawHeader], _ body: String?) {
    openStreams.remove(stream)
    let headers = headers + (date.map { [RawHeader("date", $0)] } ?? [])
    output += HTTP2Frame.headers(stream, headers, endsStream: body == nil).bytes
    guard let body else { return }
    output += HTTP2Frame.data(stream, Array(body.utf8)).bytes
  }

  // MARK: The connection

  /// Sends the first SETTINGS, or later ones. Nil: not included.
  package mutating func announce(streams: Int?, window: Int? = nil) {
    var values: [(UInt16, UInt32)] = []
    if let streams {
      values.append((HTTP2Frame.Setting.maxConcurrentStreams, UInt32(streams)))
    }
    if let window { values.append((HTTP2Frame.Setting.initialWindowSize, UInt32(window))) }
    limits.append(streams ?? limits.last ?? acknowledgedLimit)
    output += HTTP2Frame.settings(values).bytes
  }

  /// Extends the window of the whole connection (stream 0) or of one stream.
  package mutating func widen(stream: UInt32 = 0, by bytes: Int) {
    if stream == 0 { connectionWindow += bytes }
    output += HTTP2Frame.windowUpdate(stream, by: UInt32(bytes)).bytes
  }

  /// Extends all windows for what streams still hold back.
  package mutating func widenAll(by bytes: Int) {
    widen(by: bytes)
    for stream in ids.keys.sorted() where openStreams.contains(stream) {
      widen(stream: stream, by: bytes)
    }
  }

  package mutating func answerPings() {
    for ping in pings {
      output +=
        HTTP2Frame(HTTP2Frame.Kind.ping, flags: HTTP2Frame.Flag.acknowledge, ping).bytes
    }
    pings = []
  }

  /// Sends GOAWAY without an error. Requests above its last stream are not processed. That stream is `last`, or higher
  /// if notifications above it were accepted.
  package mutating func goAway(last: UInt32, debug: String = "") {
    let last = min(max(last, highestTaken), goAwayStream)
    goAwayStream = last
    requests.removeAll { $0.stream > last }
    for stream in ids.keys where stream > last { ids[stream] = nil }
    var frame = HTTP2Frame.goAway(lastStream: last, code: 0)
    frame.payload += Array(debug.utf8)
    output += frame.bytes
  }

  /// Closes this side (FIN), without GOAWAY.
  package mutating func halfClose() { isHalfClosed = true }

  /// The highest opened stream.
  package var highestStream: UInt32 { lastStream }

  /// Takes at most `count` bytes of the output.
  package mutating func takeOutput(_ count: Int = .max) -> [UInt8] {
    let part = Array(output.prefix(count))
    output.removeFirst(part.count)
    return part
  }
}
