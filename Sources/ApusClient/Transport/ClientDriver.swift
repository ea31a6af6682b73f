import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

/// What a client asks its loop to do.
enum ClientCommand: Sendable {
  case send(Submission)
  case cancel(UInt64)
}

/// What ends a client.
enum ClientControl: Sendable {
  /// Take no more pushes, wait for those that are here, say goodbye; then the closure is called.
  case close(@Sendable () -> Void)
  /// End everything at once.
  case abandon
}

/// A push as it comes to the loop.
struct Submission: Sendable {
  var number: UInt64
  var push: EncodedPush
  var completion: @Sendable (SendOutcome) -> Void
}

/// Carries out, on the client's loop, what the dispatcher decides: looks names up, connects, and moves bytes.
@safe final class ClientDriver: LinkOwner {
  let loop: EventLoop
  let buffers = TLSBuffers()
  let receiveBuffer: UnsafeMutableRawBufferPointer
  private let configuration: ClientConfiguration
  private let context: TLSContext
  private let dispatcher: Dispatcher
  private var links: [Link] = []
  private var attempt: ConnectAttempt?
  private var timer: LoopTimer?
  private var closers: [@Sendable () -> Void] = []
  private var isOver = false

  /// How often deadlines are looked at while there is something to wait for.
  private static let tickMilliseconds: UInt64 = 50
  private static let receiveBytes = 65_536

  init(
    loop: EventLoop, configuration: ClientConfiguration, context: TLSContext,
    tokens: ProviderTokenSource?
  ) {
    self.loop = loop
    self.configuration = configuration
    self.context = context
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
    var tokens = tokens
    dispatcher = Dispatcher(
      queueCapacity: configuration.queueCapacity,
      authority: Array(configuration.endpoint.authority.utf8),
      authorization: {
        tokens == nil
          ? [] : try? tokens?.authorization(nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
      },
      entropy: { UInt64.random(in: 0...UInt64.max) })
    timer = LoopTimer(loop: loop) { [unowned self] in tick() }
    loop.onTurnEnd = { [unowned self] in turnEnds() }
  }

  deinit { unsafe receiveBuffer.deallocate() }

  // MARK: Commands

  func handle(_ commands: [ClientCommand]) {
    for command in commands {
      switch command {
      case .send(let submission): add(submission)
      case .cancel(let number): dispatcher.cancel(number)
      }
    }
  }

  func handle(_ commands: [ClientControl]) {
    for command in commands {
      switch command {
      case .close(let closer):
        closers.append(closer)
        dispatcher.close()
      case .abandon: abandon()
      }
    }
  }

  private func add(_ submission: Submission) {
    dispatcher.add(
      PendingSend(
        number: submission.number, push: submission.push,
        deadlineMilliseconds: loop.nowMilliseconds
          + UInt64(configuration.sendTimeoutSeconds) * 1000,
        completion: submission.completion))
  }

  private func abandon() {
    isOver = true
    attempt = nil
    dispatcher.abandon()
    // The dispatcher has let go of their sessions: nothing is left to say.
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
    dispatcher.fill()
    for link in links { link.flush() }
    links.removeAll { $0.isClosed }
    if dispatcher.wantsConnection(nowMilliseconds: loop.nowMilliseconds) { connect() }
    if dispatcher.isClosing, dispatcher.openCount == 0 { closeLinks() }
    setTimer()
  }

  private func closeLinks() {
    attempt = nil
    for link in links { link.goodbye() }
    links.removeAll { $0.isClosed }
    if links.isEmpty { abandon() }
  }

  private func tick() {
    dispatcher.tick(nowMilliseconds: loop.nowMilliseconds)
    for link in links { link.tick(nowMilliseconds: loop.nowMilliseconds) }
  }

  /// The timer runs while there is something to wait for, so that a quiet client costs nothing.
  private func setTimer() {
    guard let timer, !isOver else { return }
    let isNeeded =
      dispatcher.openCount > 0 || attempt != nil || links.contains(where: \.isClosing)
    guard isNeeded != timer.isActive else { return }
    if isNeeded {
      timer.start(
        afterMilliseconds: Self.tickMilliseconds, repeatMilliseconds: Self.tickMilliseconds)
    } else {
      timer.stop()
    }
  }

  // MARK: Connecting

  /// One round over all addresses of the service.
  private final class ConnectAttempt {
    var addresses: [SocketAddress] = []
    var failures: [LinkFailure] = []
  }

  /// The name is looked up anew for each round: what it led to may be what failed.
  private func connect() {
    let attempt = ConnectAttempt()
    self.attempt = attempt
    let endpoint = configuration.endpoint
    SocketAddress.resolve(host: endpoint.host, port: endpoint.port, on: loop) {
      [weak self, weak attempt] result in
      // An attempt that was given up is gone by now.
      guard let self, let attempt else { return }
      switch result {
      case .success(let addresses): attempt.addresses = addresses.reversed()
      case .failure(let error): attempt.failures = [LinkFailure(error)]
      }
      connectToNext(attempt)
    }
  }

  private func connectToNext(_ attempt: ConnectAttempt) {
    guard self.attempt === attempt else { return }
    while let address = attempt.addresses.popLast() {
      do throws(LinkFailure) {
        let deadline =
          loop.nowMilliseconds + UInt64(configuration.connectTimeoutSeconds) * 1000
        links.append(
          try Link(to: address, context: context, owner: self, deadlineMilliseconds: deadline))
        return
      } catch {
        attempt.failures.append(error)
      }
    }
    self.attempt = nil
    let texts = attempt.failures.map(\.text)
    dispatcher.connectFailed(
      texts.isEmpty ? "\(configuration.endpoint.host) has no address" : text(of: texts),
      isFinal: !texts.isEmpty && attempt.failures.allSatisfy(\.isFinal),
      nowMilliseconds: loop.nowMilliseconds)
  }

  /// Each reason once: the addresses of a service mostly fail alike.
  private func text(of failures: [String]) -> String {
    var seen: [String] = []
    for text in failures where !seen.contains(text) { seen.append(text) }
    return seen.joined(separator: "; ")
  }

  // MARK: Links

  func linkOpened(_ link: Link) -> ProviderSession {
    attempt = nil
    return dispatcher.connected()
  }

  func linkProgressed(_ link: Link, _ session: ProviderSession) {
    dispatcher.progress(session, nowMilliseconds: loop.nowMilliseconds)
  }

  func linkEnded(_ link: Link, _ session: ProviderSession?, _ failure: LinkFailure) {
    if let session {
      dispatcher.lost(
        session, failure.text, isFinal: failure.isFinal, nowMilliseconds: loop.nowMilliseconds)
    } else if let attempt, !isOver {
      attempt.failures.append(failure)
      connectToNext(attempt)
    }
  }
}
