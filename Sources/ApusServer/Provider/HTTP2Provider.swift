import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTrust

/// A provider on the HTTP/2 API: bytes become requests, requests become notifications, verdicts become answers.
final class HTTP2Provider: ConnectionDriver {
  let providers: ProviderContext
  let shard: ShardDriver
  let session: HTTP2ServerSession
  var sender: ProviderConnection
  var ending = Drain()
  var hasRaisedLimit: Bool
  /// Whether the provider's team has too many connections for this one.
  var isCrowdedOut = false
  /// A final GOAWAY was sent: the connection is closed once every open stream is answered.
  var isOver = false
  private(set) var isClosed = false
  /// Nil in a normal service.
  let interception: (any ProviderInterception)?
  var errors = RateLimit.Bucket()
  /// Whether the log has why the session failed.
  var hasNotedFailure = false
  /// Whether the audit log tells already that its credential was tested; see `Explanation.deviceTokenOfProbe`.
  private var hasProbed = false
  /// Requests in progress.
  var undecidedCount = 0
  /// Those that another node answers; nil before there is one.
  var forwarded: ForwardedRequests?
  /// Second of the worker's clock at which something last came or went.
  private var activeSeconds: UInt64
  /// That at which a connection ends that has shown no valid credential.
  private let untrustedEndSeconds: UInt64

  init(
    _ connection: Connection, _ providers: ProviderContext,
    interception: (any ProviderInterception)?
  ) {
    let context = connection.context
    self.providers = providers
    shard = providers.shard
    activeSeconds = context.nowSeconds
    untrustedEndSeconds = context.nowSeconds + UInt64(Limits.untrustedConnectionSeconds)
    let environment = connection.listener.environment
    self.interception = interception
    var refusal: Refusal?
    sender = ProviderConnection(environment: environment)
    if let der = connection.tls.peerCertificateDER {
      do throws(Refusal) {
        sender = try ProviderConnection(
          environment: environment,
          certificate: CertificateCredential(
            der: der.span, authorities: connection.listener.authorities),
          directory: context.trust.directory)
      } catch {
        if let interception, interception.isLenient {
          sender = interception.forgive(error, of: connection)
        } else {
          refusal = error
        }
      }
    }
    hasRaisedLimit = sender.isTrusted
    var configuration: HTTP2ServerSession.Configuration =
      sender.isTrusted ? .trusted : .untrusted
    if let interception { interception.adjust(&configuration, &hasRaisedLimit) }
    if hasRaisedLimit {
      hasRaisedLimit = connection.becomeTrusted(as: .provider(sender.team))
      isCrowdedOut = !hasRaisedLimit
    }
    configuration.party = hasRaisedLimit ? .team(sender.team) : .untrusted(connection)
    session = HTTP2ServerSession(
      configuration: configuration, pool: providers.requestPool,
      nowMilliseconds: context.loop.nowMilliseconds)
    super.init(connection)
    connection.schedule.deadlineSeconds = context.nowSeconds + UInt64(Limits.requestSeconds)
    if isCrowdedOut { goAway(Refusal(.tooManyConnections)) }
    if let refusal { refuseConnection(refusal) }
    if context.shutdown.isDraining { drain() }
  }

  /// Goes on with a connection that was accepted elsewhere, whose peer has shown a valid credential.
  init(_ connection: Connection, _ providers: ProviderContext, resuming handed: HandedOverProvider)
  {
    let context = connection.context
    self.providers = providers
    shard = providers.shard
    session = handed.session
    sender = ProviderConnection(environment: connection.listener.environment)
    activeSeconds = context.nowSeconds
    untrustedEndSeconds = .max
    interception = nil
    hasRaisedLimit = true
    swap(&sender, &handed.sender)
    super.init(connection)
    session.move(to: providers.requestPool, as: .team(sender.team))
    session.raiseStreamLimit(to: Limits.concurrentStreams)
    // The snapshot may have changed while the connection came over.
    judgeTrust()
    handleRequests()
  }

  /// Gives the session up to the worker that goes on with the connection.
  override func leave() -> any HandedOverState {
    session.leavePool()
    let handed = HandedOverProvider(
      session, ProviderConnection(environment: connection.listener.environment))
    swap(&sender, &handed.sender)
    return handed
  }

  /// A certificate that is not good here: "TLS succeeds; SETTINGS; GOAWAY; close".
  private func refuseConnection(_ refusal: Refusal) {
    connection.noteRefusal(refusal)
    goAway(refusal)
  }

  private func goAway(_ refusal: Refusal) {
    session.goAway(reason: refusal.reason)
    isOver = true
  }

  // MARK: Requests

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    activeSeconds = context.nowSeconds
    let refusedBefore = providers.requestPool.refusedCount
    let result = unsafe session.receive(bytes, nowMilliseconds: context.loop.nowMilliseconds)
    let refusedCount = providers.requestPool.refusedCount &- refusedBefore
    if refusedCount > 0 { noteRefusedStreams(refusedCount) }
    let isWaiting = !handleRequests()
    // Headers without their body yet: some clients write them apart, and get 22 requests a second otherwise.
    if isWaiting, session.openStreamCount > 0 { connection.acknowledgeNow() }
    if case .failed = result { noteFailure() }
  }

  /// Handles the requests that are complete; false where there are none.
  @discardableResult
  private func handleRequests() -> Bool {
    var isAny = false
    while !connection.isLeaving, let request = session.nextRequest() {
      isAny = true
      handle(request)
    }
    return isAny
  }

  /// Decides about one request, or passes it on to the worker that owns the device.
  private func handle(_ request: HTTP2Request) {
    if let interception { return interception.decide(request, of: self) }
    decide(request)
  }

  func decide(_ request: HTTP2Request) {
    if forwardsChannels(request) { return }
    if managesChannels { return decideOnChannels(request) }
    if request.isBroadcast { return decideOnBroadcast(request) }
    do throws(Refusal) {
      try judge(request, request.content)
    } catch {
      refuse(request, error)
    }
  }

  /// `content` is that of the request: lent here, so that each step looks at the fields where they lie.
  private func judge(
    _ request: HTTP2Request, _ content: borrowing RequestRecord
  ) throws(Refusal) {
    let directory = context.trust.directory
    try Admission.examineHead(content.fields, headerListTooLarge: request.headerListTooLarge)
    let grant = try authenticate(request, content, directory)
    guard !connection.isLeaving else { return session.putBack(request) }
    if try relays(request, content, grant, directory) { return }
    let head = try Admission.examine(
      content.fields, connection: sender, directory: directory,
      bodyByteCount: request.bodyByteCount, body: request.bodyBytes)
    let claims = context.sealer.open(head.token)
    let admitted = try Admission.admit(
      head, claims: claims, grant: grant, connection: sender, directory: directory)
    accept(request, head, admitted)
  }

  func authenticate(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ directory: Directory
  ) throws(Refusal) -> Grant {
    let trust = context.trust
    let grant = try sender.authenticate(
      content.fields, directory: directory, nowSeconds: context.wallSeconds
    ) { token throws(Refusal) in try trust.verify(token) }
    if !hasRaisedLimit { try raiseStreamLimit() }
    return grant
  }

  func accept(
    _ request: HTTP2Request, _ head: borrowing AdmittedHead, _ claims: TokenClaims
  ) {
    let notification = shard.takeNotification()
    if head.messageID == nil { notification.id = context.ids.next() }
    Admission.fill(
      notification, from: head, claims: claims, interface: .http2,
      collapseID: request.value(.apnsCollapseID), payload: request.bodyBytes,
      nowMilliseconds: context.wallMilliseconds)
    notification.uniqueID = context.ids.next()
    undecidedCount += 1
    let open = OpenRequest(
      request: request, provider: self, id: notification.id, uniqueID: notification.uniqueID)
    if let verdict = providers.router.route(notification, providers.openRequests.open(open)) {
      providers.finish(verdict)
    }
  }

  // MARK: Answers

  /// Answers a request whose notification was decided about.
  func finish(_ open: OpenRequest, rejection: Rejection?) {
    undecidedCount -= 1
    let request = open.request
    guard !isClosed else { return finishTooLate(open, rejection) }
    if let rejection {
      connection.audit(rejection, id: open.id, fields: request.fields)
      answer(request, rejection)
    } else {
      accepted(request, open)
      context.latencies.acceptance.add(
        milliseconds: Int64(context.loop.nowMilliseconds) - Int64(request.startedMilliseconds))
    }
    session.release(request)
    connection.markDirty()
  }

  /// The provider is gone.
  private func finishTooLate(_ open: OpenRequest, _ rejection: Rejection?) {
    if let rejection {
      interception?.rejected(open.request, rejection, open.id, of: self)
    } else {
      interception?.accepted(open, of: self)
    }
    session.release(open.request)
  }

  /// 200, with the id as the provider spelled it or the one that it was given.
  private func accepted(_ request: HTTP2Request, _ open: OpenRequest) {
    interception?.accepted(open, of: self)
    // Documented for the development environment alone.
    if connection.listener.environment == .development {
      let unique = IDText(open.uniqueID)
      return session.accept(request, open.id, unique: unique.span)
    }
    session.accept(request, open.id, unique: Span())
  }

  func refuse(_ request: HTTP2Request, _ refusal: Refusal) {
    if context.log.writes(.debug) {
      context.log(
        .debug, "request rejected", .text("peer", connection.peer.description),
        .text("reason", refusal.reason.text.description),
        .text(
          "explanation",
          refusal.explanation.text(
            fields: request.fields, directory: context.trust.directory)))
    }
    interception?.willReject(request, refusal, of: self)
    let isProbe = refusal.explanation == .deviceTokenOfProbe
    let id = answer(request, refusal.rejection, isCounted: !isProbe)
    if !isProbe || !hasProbed { connection.audit(refusal, id: id, fields: request.fields) }
    hasProbed = hasProbed || isProbe
    session.release(request)
    if interception?.isLenient != true { count(refusal.reason) }
  }

  /// HEADERS, then the reason in one DATA frame that ends the stream; `apns-id` on failures too, which is the result.
  @discardableResult
  func answer(
    _ request: HTTP2Request, _ rejection: Rejection, isCounted: Bool = true
  ) -> NotificationID {
    defer { connection.markDirty() }
    if isCounted { shard.noteRejection(rejection.reason) }
    if managesChannels || request.isBroadcast {
      let id = rejectChannel(request, rejection)
      interception?.rejected(request, rejection, id, of: self)
      return id
    }
    let given: NotificationID? =
      if case .given(let id) = Admission.messageID(of: request.fields) { id } else { nil }
    let id = given ?? context.ids.next()
    session.reject(request, rejection, id, isGiven: given != nil)
    interception?.rejected(request, rejection, given == nil ? id : nil, of: self)
    return id
  }

  /// Requests that are still on their way in do not count: nobody would decide about them.
  override var wantsPause: Bool { shard.mustPause(undecided: undecidedCount) }

  // MARK: Output

  /// Moves what the session has to say into the connection, a TLS record at a time.
  override func flush() -> Connection.Ending {
    if let ending = interception?.flush(self) { return ending }
    if ending.isDraining { goOnDraining() }
    forwarded?.flush()
    while connection.mayWrite, session.wantsWrite {
      context.scratch.removeAll(keepingCapacity: true)
      session.pendingOutput(into: &context.scratch, limit: TLSBuffers.recordBytes)
      if context.scratch.isEmpty { break }
      connection.encrypt(context.scratch, count: context.scratch.count)
      activeSeconds = context.nowSeconds
    }
    if session.isFinished || (isOver && session.openStreamCount == 0 && !session.wantsWrite) {
      isOver = true
      return .now
    }
    setDeadline()
    return .none
  }

  // MARK: Time and the end

  private func setDeadline() {
    var seconds = activeSeconds + UInt64(Limits.providerIdleSeconds)
    if !hasRaisedLimit, !isOver { seconds = min(seconds, untrustedEndSeconds) }
    if let milliseconds = session.deadlineMilliseconds {
      seconds = min(seconds, milliseconds / 1000 + 1)
    }
    if let end = sender.certificateNotAfterSeconds, !isOver {
      seconds = min(seconds, context.secondAfter(end))
    }
    if ending.isDraining { seconds = min(seconds, context.nowSeconds + 1) }
    connection.schedule.deadlineSeconds = seconds
    connection.watch()
  }

  override func deadlineReached() {
    if case .failed = session.tick(nowMilliseconds: context.loop.nowMilliseconds) { noteFailure() }
    while let request = session.nextTimedOutRequest() {
      answer(request, Rejection(.idleTimeout))
      session.release(request)
    }
    let idle = context.nowSeconds - min(activeSeconds, context.nowSeconds)
    let isIdle = idle >= UInt64(Limits.providerIdleSeconds) && session.openStreamCount == 0
    if !hasRaisedLimit, context.nowSeconds >= untrustedEndSeconds { endUntrusted() }
    if isIdle { end(.idleTimeout) }
    if ending.isDraining { carryOut(ending.tick(nowSeconds: Int64(context.nowSeconds))) }
    if let end = sender.certificateNotAfterSeconds, context.certificateSeconds > end {
      judgeTrust()
    }
    setDeadline()
  }

  /// "Always send GOAWAY before closing."
  func end(_ reason: Reason) {
    guard !isOver else { return }
    isOver = true
    session.goAway(reason: reason)
    connection.markDirty()
  }

  /// What connections are judged by was replaced, or the clock jumped.
  override func trustChanged(hasLostAuthority: Bool) {
    judgeTrust()
    if sender.hasCertificate { setDeadline() }
  }

  /// Ends the connection, with GOAWAY and the reason, if what authorized it is no longer valid.
  private func judgeTrust() {
    guard !isOver, interception?.isLenient != true,
      let refusal = sender.reexamine(
        directory: context.trust.directory, nowSeconds: context.certificateSeconds)
    else { return }
    connection.noteRevocation(refusal)
    goAway(refusal)
    connection.markDirty()
  }

  /// The client will send nothing more; what it asked for is still answered.
  override func peerFinished() { end(.shutdown) }

  /// The service shuts down; `Drain` says when the connection ends.
  override func drain() {
    interception?.drain(self)
    ending.begin(nowSeconds: Int64(context.nowSeconds))
    connection.markDirty()
  }

  /// The socket is gone. Requests that are still being decided come back through `finish`.
  override func connectionClosed(_ end: Connection.End) {
    isClosed = true
    forwarded?.close()
    interception?.connectionClosed(self)
  }
}
