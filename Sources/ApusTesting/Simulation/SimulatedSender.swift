import ApusHTTP2
import ApusModel
import ApusTLS

/// A provider on the HTTP/2 interface: sends requests, good ones and bad ones, and believes what it is answered.
final class SimulatedSender: ChannelOwner {
  enum Credential {
    /// A token for each request.
    case token
    /// A certificate for one app.
    case certificate(app: Int)
  }

  let index: Int
  let environment: Environment
  let door: Int
  private unowned let world: Simulation
  private var random: SeededRandom
  private let context: TLSContext
  private let credential: Credential
  private var channel: ClientChannel?
  private var session: HTTP2ClientSession?
  /// Requests without an answer.
  private var open: [(stream: Int32, serial: Int?, time: UInt64)] = []
  private var fields = RequestFields()
  private var tokenIssuedAt: Int64 = 0
  private var isQuiet = false
  private let meanWait: UInt64

  init(
    _ index: Int, environment: Environment, door: Int, context: TLSContext,
    credential: Credential, meanWait: UInt64, world: Simulation, random: SeededRandom
  ) {
    self.index = index
    self.environment = environment
    self.door = door
    self.context = context
    self.credential = credential
    self.meanWait = meanWait
    self.world = world
    self.random = random
  }

  // MARK: Connection

  func start() {
    connect()
    sendLater()
    tick()
  }

  private func connect() {
    guard channel == nil else { return }
    session = nil
    do {
      let channel = try ClientChannel(self, door: door, context: context, network: world.network)
      self.channel = channel
      world.trace("sender connects", index, channel.number)
    } catch {
      world.oracle.violated("no TLS connection: \(error)")
    }
  }

  func channelOpened(_ channel: ClientChannel) {
    guard channel === self.channel else { return }
    session = HTTP2ClientSession()
    flush()
  }

  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64) {
    guard channel === self.channel, let session else { return }
    _ = session.receive(bytes.span)
    takeAnswers()
    flush()
    // The service goes: what is open is still answered.
    if session.goAway != nil, open.isEmpty { leave() }
  }

  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End) {
    guard channel === self.channel else { return }
    world.trace("sender loses connection", index, channel.number, open.count)
    lost()
  }

  private func leave() {
    channel?.drop(resets: false)
    lost()
  }

  private func lost() {
    session?.connectionLost()
    takeAnswers()
    for request in open { if let serial = request.serial { world.oracle.lost(serial) } }
    open = []
    channel = nil
    session = nil
    guard !isQuiet else { return }
    world.timeline.after(random.between(200, 5_000) * 1000) { [weak self] in self?.connect() }
  }

  private func flush() {
    guard let session, let channel else { return }
    var output: [UInt8] = []
    while session.wantsWrite {
      let before = output.count
      session.pendingOutput(into: &output, limit: output.count + 16_384)
      if output.count == before { break }
    }
    channel.send(output)
  }

  // MARK: Answers

  private func takeAnswers() {
    while let response = session?.nextResponse() {
      if let place = open.firstIndex(where: { $0.stream == response.streamID }) {
        let request = open.remove(at: place)
        answered(request.serial, response)
      }
      session?.release(response)
    }
  }

  private func answered(_ serial: Int?, _ response: HTTP2Response) {
    guard let serial else {
      if response.failure == nil, response.status == 200 {
        world.oracle.violated("law 2: a request beyond its sender's rights was accepted")
      }
      return
    }
    if response.failure != nil { return world.oracle.lost(serial) }
    if response.status == 200 { return world.oracle.accepted(serial) }
    let body = response.body
    world.trace("refused", serial, Int(response.status), text: body.span.text)
    world.oracle.refused(serial, mayHaveTaken: response.status >= 500)
    if response.status == 410 { world.tokenDied(serial) }
  }

  /// Gives a connection up that does not answer.
  private func tick() {
    if let first = open.first, world.timeline.now - first.time > 60 * Timeline.second {
      world.trace("sender gives up", index, open.count)
      channel?.drop(resets: true)
      lost()
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
    // A token of another app, which no credential makes good.
    let app = isBad ? (target.app + 1) % SimulationCredentials.appCount : target.app
    add(.apnsTopic, SimulationCredentials.topic(app))
    addCredential()
    addOptions(expiration, serial)
    let payload = SimulationPayload.bytes(serial ?? 999_999_999, padding: random.below(200))
    guard let stream = session.submit(fields: fields, body: payload.span) else {
      if let serial { world.oracle.lost(serial) }
      return
    }
    open.append((stream, serial, world.timeline.now))
  }

  private var app: Int? {
    if case .certificate(let app) = credential { app } else { nil }
  }

  private func add(_ name: HeaderName, _ value: String) {
    _ = fields.add(name, value: Array(value.utf8).span)
  }

  private func addCredential() {
    guard case .token = credential else { return }
    let now = world.worldSeconds
    if now - tokenIssuedAt > 2400 { tokenIssuedAt = now }
    guard
      let value = try? world.credentials.authorization(
        world.credentials.key, issuedAt: tokenIssuedAt)
    else { return world.oracle.violated("no provider token") }
    _ = fields.add(.authorization, value: value.span)
  }

  /// Nil for the longest, 0 for "not to be stored", else Unix seconds.
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

  // MARK: Mischief

  func suffer(resets: Bool) {
    guard let channel else { return }
    world.trace("sender trouble", index, resets ? 1 : 0)
    if resets { channel.drop(resets: true) } else { channel.vanish(probed: true) }
    lost()
  }
}
