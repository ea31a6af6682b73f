import ApusHTTP2
import ApusModel
import ApusRandom

/// A provider's connection for channels, broadcasts or notifications for upstream over HTTP/2.
final class SimulatedChannelProvider: LineUser {
  struct Answer {
    var status: UInt16
    var channel: String?
    var unique: String?
  }

  private struct Request {
    var stream: Int32
    var time: UInt64
    var completion: (Answer?) -> Void
  }

  private unowned let world: Simulation
  private var random: SeededRandom
  private let line: SimulatedLine
  private var session: HTTP2ClientSession?
  private var open: [Request] = []
  private var fields = RequestFields()
  private var token = SimulatedProviderToken()
  /// Whether answers take as long as upstream does.
  private let waitsForUpstream: Bool

  init(
    _ listener: Int, _ world: Simulation, _ random: SeededRandom, waitsForUpstream: Bool = false
  ) {
    self.world = world
    self.waitsForUpstream = waitsForUpstream
    var random = random
    line = SimulatedLine(
      .broadcaster, listener, listener: listener, world: world, random: random.split()
    ) { try world.credentials.clientContext(certificate: nil, protocols: ["h2"]) }
    self.random = random
    line.user = self
  }

  func start() {
    line.connect()
    tick()
    sufferLater()
  }

  var isReady: Bool { (session?.availableStreams ?? 0) > 0 }

  /// Sends a request. Calls `completion` once, with nil if the outcome is unknown.
  func submit(
    _ method: String, _ path: String, _ headers: [(HeaderName, String)] = [], body: [UInt8],
    completion: @escaping (Answer?) -> Void
  ) {
    fields.removeAll()
    let head: [(HeaderName, String)] = [
      (.method, method), (.scheme, "https"), (.path, path), (.authority, "localhost"),
    ]
    for (name, value) in head + headers { _ = fields.add(name, value: Array(value.utf8).span) }
    token.add(to: &fields, world)
    guard let stream = session?.submit(fields: fields, body: body.span) else {
      return completion(nil)
    }
    open.append(Request(stream: stream, time: world.timeline.now, completion: completion))
    flush()
  }

  /// Abandons a connection without answers.
  private func tick() {
    if let first = open.first, !waitsForUpstream { world.checkWaiting(since: first.time) }
    if let first = open.first, world.timeline.now - first.time > 60 * Timeline.second {
      line.leave(resets: true)
    }
    world.timeline.after(seconds: 5) { [weak self] in self?.tick() }
  }

  private func sufferLater() {
    world.timeline.after(random.between(30, 600) * Timeline.second) { [weak self] in
      guard let self, !world.isCalm else { return }
      line.suffer(resets: random.chance(1, in: 2))
      sufferLater()
    }
  }

  // MARK: The connection

  func lineOpened() {
    session = HTTP2ClientSession()
    token = SimulatedProviderToken(key: world.directory.revokedKeys)
    flush()
  }

  func lineReceived(_ bytes: [UInt8]) {
    guard let session else { return }
    _ = session.receive(bytes.span)
    takeAnswers()
    flush()
    if session.goAway != nil, open.isEmpty { line.leave() }
  }

  func lineLost(_ end: ClientChannel.End?) {
    session?.connectionLost()
    takeAnswers()
    session = nil
    let lost = open
    open = []
    for request in lost { request.completion(nil) }
  }

  private func takeAnswers() {
    while let response = session?.nextResponse() {
      let answer = Answer(
        status: response.status, channel: response.text(.apnsChannelID),
        unique: response.text(.apnsUniqueID))
      let hasFailed = response.failure != nil
      let place = open.firstIndex { $0.stream == response.streamID }
      session?.release(response)
      if let place { open.remove(at: place).completion(hasFailed ? nil : answer) }
    }
  }

  private func flush() { line.send(from: session) }
}
