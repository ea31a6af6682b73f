import ApusRandom
import ApusHTTP2
import ApusModel
import ApusTLS

/// A provider on the HTTP/2 interface: sends valid and invalid requests, and records the answers.
final class SimulatedSender: LineUser {
  enum Credential {
    /// A token for each request.
    case token
    /// A certificate for one app.
    case certificate(app: Int)
  }

  private struct Request {
    var stream: Int32
    /// Nil for one that must be rejected.
    var serial: Int?
    var time: UInt64
    /// Its credential was revoked before it was sent.
    var isRevoked: Bool
  }

  let environment: Environment
  private unowned let world: Simulation
  private var random: SeededRandom
  let line: SimulatedLine
  private let credential: Credential
  private var session: HTTP2ClientSession?
  /// Requests without an answer.
  private var open: [Request] = []
  private var fields = RequestFields()
  private var token = SimulatedProviderToken()
  private let editions: CertificateEditions
  private var isQuiet = false
  private let meanWait: UInt64

  init(
    _ index: Int, environment: Environment, credential: Credential, meanWait: UInt64,
    world: Simulation, random: SeededRandom
  ) {
    self.environment = environment
    self.credential = credential
    self.meanWait = meanWait
    self.world = world
    var random = random
    let editions = CertificateEditions(world, random: random.split())
    self.editions = editions
    line = SimulatedLine(
      .sender, index, listener: SimulationListener.index(.provider, environment), world: world,
      random: random.split()
    ) {
      let certificate: Int? =
        if case .certificate(let app) = credential { editions.next(of: app) } else { nil }
      return try world.credentials.clientContext(certificate: certificate, protocols: ["h2"])
    }
    self.random = random
    line.user = self
  }

  // MARK: Connection

  func start() {
    line.connect()
    sendLater()
    tick()
  }

  func lineOpened() {
    session = HTTP2ClientSession()
    token = SimulatedProviderToken(key: world.key(&random))
    flush()
  }

  func lineReceived(_ bytes: [UInt8]) {
    guard let session else { return }
    _ = session.receive(bytes.span)
    takeAnswers()
    flush()
    // The service is closing: open requests are still answered.
    if session.goAway != nil, open.isEmpty { line.leave() }
  }

  func lineLost(_ end: ClientChannel.End?) {
    session?.connectionLost()
    takeAnswers()
    for request in open { if let serial = request.serial { world.oracle.lost(serial) } }
    open = []
    session = nil
  }

  private func flush() { line.send(from: session) }

  // MARK: Answers

  private func takeAnswers() {
    while let response = session?.nextResponse() {
      if let place = open.firstIndex(where: { $0.stream == response.streamID }) {
        let request = open.remove(at: place)
        answered(request, response)
      }
      session?.release(response)
    }
  }

  private func answered(_ request: Request, _ response: HTTP2Response) {
    if request.isRevoked, response.failure == nil, response.status == 200 {
      world.oracle.violated(.rights, "a request with a revoked credential was accepted")
    }
    guard let serial = request.serial else {
      if response.failure == nil, response.status == 200 {
        world.oracle.violated(.rights, "a request beyond its provider's rights was accepted")
      }
      return
    }
    if response.failure != nil { return world.oracle.lost(serial) }
    world.checkAnswer(serial, status: Int(response.status))
    if response.status == 200 { return world.oracle.accepted(serial) }
    let body = response.body
    world.trace("refused", serial, Int(response.status), text: body.span.text)
    world.oracle.refused(serial, mayHaveTaken: response.status >= 500)
    if response.status == 410 { world.tokenDied(serial) }
  }

  /// Abandons a connection without answers.
  private func tick() {
    if let first = open.first {
      world.checkWaiting(since: first.time)
      world.checkPromptness(since: first.time, over: line.channel?.link)
    }
    if let first = open.first, world.timeline.now - first.time > 60 * Timeline.second {
      world.trace("sender gives up", line.index, open.count)
      line.leave(resets: true)
    }
    world.timeline.after(seconds: 5) { [weak self] in self?.tick() }
  }

  // MARK: Requests

  private func sendLater() {
    world.timeline.after(random.wait(mean: meanWait)) { [weak self] in
      guard let self, !isQuiet else { return }
      let burst = random.chance(1, in: 20) ? random.below(30) : 1
      for _ in 0..<burst { send() }
      flush()
      sendLater()
    }
  }

  func stopSending() { isQuiet = true }

  private func send() {
    guard let session, session.availableStreams > 0 else { return }
    guard let target = world.target(environment: environment, app: app, &random) else { return }
    let isBad = random.chance(1, in: 50)
    let expiration = expiration()
    var serial: Int?
    if !isBad { serial = world.sent(target, environment: environment, expiration: expiration) }
    fields.removeAll()
    add(.method, "POST")
    add(.scheme, "https")
    add(.path, "/3/device/\(target.token.hex)")
    add(.authority, "localhost")
    // A token of another app, which is invalid with every credential.
    let app = isBad ? (target.app + 1) % SimulationCredentials.appCount : target.app
    add(.apnsTopic, SimulationCredentials.topic(app))
    if case .token = credential { token.add(to: &fields, world) }
    if let serial {
      add(.apnsID, SimulationID.id(serial).text)
      world.oracle.named(serial)
    }
    addOptions(expiration, serial)
    let payload = SimulationPayload.bytes(serial ?? 999_999_999, padding: random.below(200))
    guard let stream = session.submit(fields: fields, body: payload.span) else {
      if let serial { world.oracle.lost(serial) }
      return
    }
    open.append(
      Request(
        stream: stream, serial: serial, time: world.timeline.now, isRevoked: isCredentialRevoked))
  }

  private var app: Int? {
    if case .certificate(let app) = credential { app } else { nil }
  }

  private var isCredentialRevoked: Bool {
    switch credential {
    case .token: world.isRevoked(key: token.key)
    case .certificate: world.isRevoked(certificate: editions.current)
    }
  }

  private func add(_ name: HeaderName, _ value: String) {
    _ = fields.add(name, value: Array(value.utf8).span)
  }

  /// Nil for the maximum, 0 for "not to be stored", else Unix seconds.
  private func expiration() -> Int64? {
    switch random.below(10) {
    case 0...3: nil
    case 4, 5: 0
    case 6, 7: world.worldSeconds + Int64(random.between(5, 300))
    default: world.worldSeconds + Int64(random.between(3_600, 400_000))
    }
  }

  private func addOptions(_ expiration: Int64?, _ serial: Int?) {
    if let expiration { add(.apnsExpiration, "\(expiration)") }
    switch random.below(4) {
    case 0: add(.apnsPriority, "5")
    case 1: add(.apnsPriority, "10")
    case 2 where random.chance(1, in: 4): add(.apnsPriority, "1")
    default: break
    }
    if random.chance(1, in: 2) { add(.apnsPushType, "alert") }
    if let serial, random.chance(1, in: 10) {
      let group = random.below(3)
      add(.apnsCollapseID, "group \(group)")
      world.oracle.collapses(serial, group: group)
    }
  }
}
