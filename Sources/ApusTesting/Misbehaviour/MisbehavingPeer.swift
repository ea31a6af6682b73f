import ApusModel

/// The service's end of one HTTP/2 connection, in plaintext: bytes in, bytes out. It accepts all requests, except that
/// it misbehaves once.
///
/// It encodes its own frames, independently of the library under test, and keeps account of what arrived.
package struct MisbehavingPeer: Sendable {
  /// A request that arrived whole.
  package struct Arrival: Sendable, Hashable {
    /// The `apns-id`.
    package var id: String
    /// Whether the service says that it did not process it, or has rejected it.
    package var isRefused: Bool
  }

  private struct Request {
    var id: String
    var isWhole = false
    var isOver = false
  }

  /// Bytes to send.
  private var output: [UInt8] = []
  /// The requests that arrived whole, in order.
  package private(set) var arrivals: [Arrival] = []
  /// Whether to end the connection after the output.
  package private(set) var isEnding = false
  /// Whether the client has acknowledged all SETTINGS.
  package var isSettled: Bool { unacknowledged == 0 }
  /// The answers that were begun or completed.
  package private(set) var answerCount = 0
  /// Whether it has yet to misbehave.
  package var isWaiting: Bool { plan != nil }

  private var plan: (misbehaviour: Misbehaviour, moment: Misbehaviour.Moment)?
  /// What it did in the place of a good answer.
  private var effect: Misbehaviour.Effect?
  private var victim: UInt32?
  private var input: [UInt8] = []
  private var hasPreface = false
  private var decoder = HPACKDecoder()
  private var requests: [UInt32: Request] = [:]
  private var lastStream: UInt32 = 0
  /// Streams above it are not processed.
  private var goAwayStream = UInt32.max
  private var unacknowledged = 0

  /// A good service.
  package init() { announce(window: 65_535) }

  /// A service that misbehaves at that moment.
  package init(_ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) {
    plan = (misbehaviour, moment)
    if moment == .beforeSettings { misbehave() }
    if !isEnding { announce(window: Self.window(moment)) }
    if moment == .beforeRequest { misbehave() }
  }

  /// The same for the requests that come next, on a connection that is in use.
  package mutating func prepare(_ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) {
    plan = (misbehaviour, moment)
    (effect, victim) = (nil, nil)
    announce(window: Self.window(moment))
  }

  /// What a body may have before it stops.
  private static func window(_ moment: Misbehaviour.Moment) -> UInt32 {
    switch moment {
    case .afterRequestHeaders: 0
    case .withinRequestBody: 5
    default: 65_535
    }
  }

  private mutating func announce(window: UInt32) {
    output +=
      HTTP2Frame.settings([
        (HTTP2Frame.Setting.headerTableSize, 4096),
        (HTTP2Frame.Setting.maxConcurrentStreams, 100),
        (HTTP2Frame.Setting.initialWindowSize, window),
      ]).bytes
    unacknowledged += 1
  }

  // MARK: Misbehaviour

  /// Sends the bytes of the plan, once, and then goes on as a good service would.
  package mutating func misbehave() {
    guard let (misbehaviour, moment) = plan else { return }
    plan = nil
    let victim = victim ?? max(lastStream, 1)
    let done = misbehaviour.effect(at: moment)
    effect = done
    output += misbehaviour.bytes(.init(victim: victim, bystander: victim + 2))
    if misbehaviour.closes {
      isEnding = true
      return
    }
    apply(done, victim, moment)
    guard moment != .beforeSettings else { return }
    announce(window: 65_535)
  }

  private mutating func apply(
    _ effect: Misbehaviour.Effect, _ victim: UInt32, _ moment: Misbehaviour.Moment
  ) {
    switch effect {
    case .ignored, .connectionError: break
    case .streamError, .reset, .accepted, .rejected, .unclear:
      requests[victim]?.isOver = true
      // What was complete before the client reset it counts as processed.
      if case .reset(isRefused: true) = effect { refuse(victim) }
      if case .rejected = effect { refuse(victim) }
    case .goAway(let spares):
      goAwayStream = spares == 0 ? victim - 1 : victim + 2 * UInt32(spares - 1)
      for stream in requests.keys where stream > goAwayStream { refuse(stream) }
    }
  }

  /// What arrived of the stream was not processed.
  private mutating func refuse(_ stream: UInt32) {
    requests[stream]?.isOver = true
    guard let id = requests[stream]?.id else { return }
    for index in arrivals.indices where arrivals[index].id == id {
      arrivals[index].isRefused = true
    }
  }

  private mutating func misbehave(at moment: Misbehaviour.Moment, on stream: UInt32) {
    if plan?.moment == moment, stream == victim { misbehave() }
  }

  // MARK: The client's bytes

  package mutating func receive(_ bytes: [UInt8]) {
    input += bytes
    if !hasPreface {
      guard input.count >= HTTP2Frame.preface.count else { return }
      input.removeFirst(HTTP2Frame.preface.count)
      hasPreface = true
    }
    while !isEnding, let frame = HTTP2Frame(takingFrom: &input) { take(frame) }
  }

  /// Takes the output.
  package mutating func takeOutput() -> [UInt8] {
    var taken: [UInt8] = []
    swap(&taken, &output)
    return taken
  }

  private mutating func take(_ frame: HTTP2Frame) {
    switch frame.kind {
    case HTTP2Frame.Kind.headers: open(frame)
    case HTTP2Frame.Kind.data:
      if !frame.payload.isEmpty {
        output += HTTP2Frame.windowUpdate(0, by: UInt32(frame.payload.count)).bytes
      }
      misbehave(at: .withinRequestBody, on: frame.stream)
      if frame.endsStream { finish(frame.stream) }
    case HTTP2Frame.Kind.settings where frame.isAcknowledgement:
      unacknowledged = max(0, unacknowledged - 1)
    case HTTP2Frame.Kind.settings: output += HTTP2Frame.settingsAcknowledgement.bytes
    case HTTP2Frame.Kind.ping where !frame.isAcknowledgement:
      output +=
        HTTP2Frame(HTTP2Frame.Kind.ping, flags: HTTP2Frame.Flag.acknowledge, frame.payload).bytes
    case HTTP2Frame.Kind.resetStream: requests[frame.stream]?.isOver = true
    default: break
    }
  }

  private mutating func open(_ frame: HTTP2Frame) {
    let headers = (try? decoder.decode(frame.payload)) ?? []
    let id = headers.first { $0.name == HeaderName.apnsID.text.description }
    lastStream = frame.stream
    requests[frame.stream] = Request(id: id?.text ?? "")
    if plan != nil, victim == nil { victim = frame.stream }
    misbehave(at: .afterRequestHeaders, on: frame.stream)
    if frame.endsStream { finish(frame.stream) }
  }

  /// The whole request is here.
  private mutating func finish(_ stream: UInt32) {
    guard let request = requests[stream] else { return }
    requests[stream]?.isWhole = true
    arrivals.append(
      Arrival(
        id: request.id, isRefused: stream > goAwayStream || request.isOver && isRefusing(stream)))
    misbehave(at: .afterRequest, on: stream)
    // The victim is answered when the bystander is there, too.
    if let victim, plan != nil, stream == victim { return }
    if let victim, plan != nil { answer(victim) }
    for open in requests.keys.sorted() { answer(open) }
  }

  private func isRefusing(_ stream: UInt32) -> Bool {
    guard stream == victim else { return false }
    switch effect {
    case .reset(isRefused: true), .rejected: return true
    default: return false
    }
  }

  private mutating func answer(_ stream: UInt32) {
    guard !isEnding, let request = requests[stream], request.isWhole, !request.isOver,
      stream <= goAwayStream
    else { return }
    answerCount += 1
    let headers = [RawHeader(":status", "200")]
    guard stream == victim, plan != nil else {
      output += HTTP2Frame.headers(stream, headers, endsStream: true).bytes
      return requests[stream] = nil
    }
    output += HTTP2Frame.headers(stream, headers).bytes
    misbehave(at: .afterResponseHeaders, on: stream)
    guard requests[stream]?.isOver == false, !isEnding else { return }
    output += HTTP2Frame.data(stream, [0x7b], endsStream: false).bytes
    misbehave(at: .withinResponseBody, on: stream)
    guard requests[stream]?.isOver == false, !isEnding else { return }
    output += HTTP2Frame.data(stream, [0x7d]).bytes
    requests[stream] = nil
    misbehave(at: .afterResponse, on: stream)
  }
}
