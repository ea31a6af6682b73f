import ApusLoop

// Metrics and periodic checks.
extension ClientDriver {
  /// Reloads the credential files if they changed.
  func takeUpCredentials() {
    switch credentials.reload(nowMilliseconds: loop.nowMilliseconds) {
    case .unchanged: break
    case .changed:
      dispatcher.retireAll()
      configuration.observer?.client(.credentialChanged)
    case .failed(let text): configuration.observer?.client(.credentialRefused(text))
    }
  }

  func metrics() -> ClientMetrics {
    let counters = dispatcher.counters
    var metrics = ClientMetrics()
    metrics.waiting = dispatcher.waitingCount
    metrics.inFlight = dispatcher.openCount - metrics.waiting
    metrics.waitingFor = metrics.waiting > 0 ? dispatcher.hindrance?.limit : nil
    for (what, milliseconds) in counters.waitedMilliseconds.enumerated() where milliseconds > 0 {
      guard let what = WaitingFor(rawValue: what) else { continue }
      metrics.waitedSeconds[what.limit] = Double(milliseconds) / 1000
    }
    metrics.accepted = counters.accepted
    metrics.rejected = counters.rejected
    metrics.unknown = counters.unknown
    metrics.resent = counters.resent
    metrics.tokenRefusals = counters.tokenRefusals
    metrics.connectionsMade = counters.connectionsMade
    metrics.connectionsFailed = counters.connectionsFailed
    metrics.latency = counters.latency
    metrics.tokenAgeSeconds = credentials.tokenAgeSeconds
    metrics.clockSkewSeconds = credentials.clockSkewSeconds
    metrics.lastFailure = dispatcher.lastFailure.isEmpty ? nil : dispatcher.lastFailure
    metrics.connections = links.compactMap(\.metrics)
    return metrics
  }
}

extension Link {
  /// Nil before there is an HTTP/2 connection.
  fileprivate var metrics: ClientMetrics.Connection? {
    guard let session else { return nil }
    return ClientMetrics.Connection(
      address: "\(address)", openRequests: session.openCount, streamLimit: session.streamLimit,
      windowBytes: session.windowBytes, answers: session.answerCount)
  }
}
