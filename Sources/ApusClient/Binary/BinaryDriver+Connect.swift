import ApusLoop
import ApusModel
import ApusTLS

// How a client of the binary interface opens connections, and handles their ends.

extension BinaryDriver {
  /// One round over all addresses of the service, for a lane.
  final class ConnectAttempt {
    let lane: BinaryLane
    var addresses: [SocketAddress] = []
    var failures: [LinkFailure] = []

    init(_ lane: BinaryLane) { self.lane = lane }
  }

  func connectIfNeeded() {
    let now = monotonicMilliseconds()
    guard attempt == nil, plan.mayConnect(nowMilliseconds: now), let lane = laneToConnect else {
      return
    }
    connect(lane)
  }

  /// A lane with pending notifications first; if the others have no room, an empty one.
  private var laneToConnect: BinaryLane? {
    for lane in lanes where lane.link == nil && lane.queue.pendingCount > 0 { return lane }
    guard !waiting.isEmpty else { return nil }
    if let idle = lanes.first(where: { $0.link == nil }) { return idle }
    guard lanes.count < configuration.connections, lanes.allSatisfy(\.isOpen) else { return nil }
    let lane = BinaryLane(SentQueue(format: format, window: configuration.window))
    lanes.append(lane)
    return lane
  }

  /// Resolves the name for each round: its previous address may be what failed.
  private func connect(_ lane: BinaryLane) {
    identity.reload()
    let attempt = ConnectAttempt(lane)
    self.attempt = attempt
    let endpoint = configuration.endpoint
    SocketAddress.resolve(host: endpoint.host, port: endpoint.port, on: loop) {
      [weak self, weak attempt] result in
      // The attempt may have been abandoned.
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
      let deadline = monotonicMilliseconds() + UInt64(configuration.connectTimeoutSeconds) * 1000
      do throws(SocketError) {
        attempt.lane.link = try BinaryLink(
          to: address, lane: attempt.lane, context: identity.context, owner: self,
          deadlineMilliseconds: deadline)
        return
      } catch {
        attempt.failures.append(LinkFailure(error))
      }
    }
    self.attempt = nil
    let failure = LinkFailure.sum(of: attempt.failures, host: configuration.endpoint.host)
    noteFailure(failure.text, isFinal: failure.isFinal)
  }

  /// A connection attempt failed, or a connection made no progress.
  private func noteFailure(_ text: String, isFinal: Bool) {
    lastFailure = text
    let givesUp = plan.failed(
      isFinal: isFinal, entropy: UInt64.random(in: 0...UInt64.max),
      nowMilliseconds: monotonicMilliseconds())
    guard givesUp else { return }
    for lane in lanes where lane.link == nil {
      lane.lastFailure = text
      lane.queue.abandonUnwritten(.connectionFailed)
    }
    if !lanes.contains(where: \.isOpen) { failWaiting(.connectionFailed, text) }
  }

  // MARK: Links

  func linkOpened(_ link: BinaryLink) {
    attempt = nil
    report.connectionMade()
  }

  func linkEnded(_ link: BinaryLink, _ end: BinaryLink.End) {
    let lane = link.lane
    lane.link = nil
    lane.isProbed = false
    switch end {
    case .finished: break
    case .told(.notUnderstood):
      lane.lastFailure = "the service named no notification that was sent"
      noteFailure(lane.lastFailure, isFinal: false)
    case .told: plan.succeeded()
    case .failed(let failure):
      guard let attempt, attempt.lane === lane, !isOver else { return }
      attempt.failures.append(failure)
      connectToNext(attempt)
    case .lost(let text, let isUnread):
      lane.lastFailure = text
      let wasGood = lane.queue.hasAccepted
      lane.queue.connectionLost(isUnread: isUnread)
      if wasGood { plan.succeeded() } else { noteFailure(text, isFinal: isUnread) }
    }
  }
}
