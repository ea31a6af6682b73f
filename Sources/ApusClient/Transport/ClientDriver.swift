import ApusLoop
import ApusModel
import ApusTLS

/// Commands to a client's loop.
enum ClientCommand: Sendable {
  case send(PendingSend)
  case cancel(PendingSend)
}

/// Commands that end a client, and metrics requests.
enum ClientControl: Sendable {
  /// Accept no more pushes, wait for existing ones, and close cleanly; then call the closure.
  case close(@Sendable () -> Void)
  /// End everything immediately.
  case abandon
  /// Report the metrics.
  case report(@Sendable (ClientMetrics) -> Void)
}

/// Executes the dispatcher's decisions on the client's loop: connects, and moves bytes.
@safe final class ClientDriver: LinkOwner {
  let loop: EventLoop
  let buffers = TLSBuffers()
  let receiveBuffer: UnsafeMutableRawBufferPointer
  let configuration: ClientConfiguration
  let credentials: ClientCredentials
  let dispatcher: Dispatcher
  var links: [Link] = []
  /// Unfinished rounds over the service's addresses.
  var rounds: [ConnectRound] = []
  private var timer: LoopTimer?
  private var timerPeriodMilliseconds: UInt64 = 0
  private var closers: [@Sendable () -> Void] = []
  private(set) var isOver = false

  /// How often deadlines are checked while work is pending.
  private static let tickMilliseconds: UInt64 = 50
  /// The same while there are only idle connections.
  private static let idleTickMilliseconds: UInt64 = 2000
  private static let receiveBytes = 65_536

  init(loop: EventLoop, configuration: ClientConfiguration, credentials: ClientCredentials) {
    self.loop = loop
    self.configuration = configuration
    self.credentials = credentials
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
    dispatcher = Dispatcher(
      settings: configuration.dispatcherSettings,
      authorization: { credentials.authorization() },
      renewAuthorization: { credentials.renewAuthorization() },
      entropy: { UInt64.random(in: 0...UInt64.max) })
    timer = LoopTimer(loop: loop) { [unowned self] in tick() }
    loop.onTurnEnd = { [unowned self] in turnEnds() }
  }

  deinit { unsafe receiveBuffer.deallocate() }

  // MARK: Commands

  func handle(_ commands: [ClientCommand]) {
    let now = loop.nowMilliseconds
    for command in commands {
      switch command {
      case .send(let send): dispatcher.add(send, nowMilliseconds: now)
      case .cancel(let send): dispatcher.cancel(send, nowMilliseconds: now)
      }
    }
  }

  func handle(_ jobs: [BulkJob]) {
    for job in jobs { dispatcher.add(job, nowMilliseconds: loop.nowMilliseconds) }
  }

  func handle(_ commands: [ClientControl]) {
    for command in commands {
      switch command {
      case .close(let closer):
        closers.append(closer)
        dispatcher.close()
      case .abandon: abandon()
      case .report(let reader): reader(metrics())
      }
    }
  }

  private func abandon() {
    guard !isOver else { return }
    isOver = true
    rounds = []
    dispatcher.abandon(nowMilliseconds: loop.nowMilliseconds)
    // The dispatcher has released their sessions: no result is left to report.
    for link in links { link.end(LinkFailure("the client was closed")) }
    links = []
    timer?.close()
    loop.onTurnEnd = nil
    for closer in closers { closer() }
    closers = []
  }

  // MARK: Turns

  private func turnEnds() {
    guard !isOver else { return }
    let now = loop.nowMilliseconds
    dispatcher.fill(nowMilliseconds: now)
    for link in links { link.flush() }
    links.removeAll { $0.isClosed }
    while dispatcher.wantsConnection(nowMilliseconds: now) { connect() }
    dispatcher.deliver()
    if dispatcher.isClosing, dispatcher.openCount == 0 { closeLinks() }
    setTimer()
  }

  private func closeLinks() {
    rounds = []
    for link in links { link.goodbye() }
    links.removeAll { $0.isClosed }
    if links.isEmpty { abandon() }
  }

  private func tick() {
    takeUpCredentials()
    dispatcher.tick(nowMilliseconds: loop.nowMilliseconds)
    for link in links { link.tick(nowMilliseconds: loop.nowMilliseconds) }
  }

  /// The timer runs only while there is something to wait for, so an idle client costs almost nothing.
  private func setTimer() {
    guard let timer, !isOver else { return }
    let isBusy = dispatcher.isBusy || !rounds.isEmpty || links.contains(where: \.isClosing)
    let period =
      isBusy ? Self.tickMilliseconds : links.isEmpty ? 0 : Self.idleTickMilliseconds
    guard period != timerPeriodMilliseconds else { return }
    timerPeriodMilliseconds = period
    if period > 0 {
      timer.start(afterMilliseconds: period, repeatMilliseconds: period)
    } else {
      timer.stop()
    }
  }

  // MARK: Links

  func linkOpened(_ link: Link) -> ProviderSession {
    rounds.removeAll { $0 === link.round }
    configuration.observer?.client(.connectionMade("\(link.address)"))
    return dispatcher.connected(nowMilliseconds: loop.nowMilliseconds)
  }

  func linkProgressed(_ link: Link, _ session: ProviderSession) {
    dispatcher.progress(session, nowMilliseconds: loop.nowMilliseconds)
    if !link.isClockKnown, let seconds = session.serverSeconds {
      link.isClockKnown = true
      credentials.noteServerClock(seconds)
      if let skew = credentials.clockSkewSeconds, abs(skew) >= ClientCredentials.skewSeconds {
        configuration.observer?.client(.clockDiffers(seconds: skew))
      }
    }
  }

  func linkEnded(_ link: Link, _ session: ProviderSession?, _ failure: LinkFailure) {
    if let session {
      configuration.observer?.client(
        .connectionEnded(session.goAway?.text ?? failure.text))
      dispatcher.lost(
        session, failure.text, isFinal: failure.isFinal, nowMilliseconds: loop.nowMilliseconds)
    } else if let round = link.round, !isOver {
      round.failures.append(failure)
      connectToNext(round)
    }
  }
}
