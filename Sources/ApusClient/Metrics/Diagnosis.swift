/// What limits a client, in words.
public struct ClientDiagnosis: Sendable, Hashable, CustomStringConvertible {
  /// Nil: only the program that sends limits the client.
  public var limit: ClientMetrics.Limit?
  /// A sentence or two for a person: the limit, its numbers, and what would raise it.
  public var description: String
  public var metrics: ClientMetrics

  init(_ metrics: ClientMetrics, maximumConnections: Int) {
    self.metrics = metrics
    limit = Self.limit(metrics)
    description = Self.text(limit, metrics, maximumConnections)
    if let text = metrics.clockText { description += " \(text)" }
  }

  /// What pushes wait for now, else what they waited for longest.
  private static func limit(_ metrics: ClientMetrics) -> ClientMetrics.Limit? {
    let answered = metrics.accepted + metrics.rejected
    if metrics.tokenRefusals > 0, metrics.tokenRefusals * 2 >= answered { return .token }
    if metrics.waiting > 0, let limit = metrics.waitingFor { return limit }
    let most = metrics.waitedSeconds.max {
      ($0.value, $1.key.rawValue) < ($1.value, $0.key.rawValue)
    }
    guard let most, most.value >= 0.1 else { return nil }
    return most.key
  }

  private static func text(
    _ limit: ClientMetrics.Limit?, _ metrics: ClientMetrics, _ maximumConnections: Int
  ) -> String {
    let count = metrics.connections.count
    let connections = count == 1 ? "one connection" : "\(count) connections"
    let more =
      count < maximumConnections
      ? "The client is still adding connections, up to \(maximumConnections)."
      : "More connections would raise that: maximumConnections is \(maximumConnections)."
    switch limit {
    case nil:
      return "Nothing limits the client: it waits for pushes."
    case .connection:
      return "No connection accepts pushes\(metrics.lastFailure.map { ": \($0)" } ?? " yet")."
    case .streams:
      let streams = metrics.connections.reduce(0) { $0 + $1.streamLimit }
      return "Streams are the limit: the service allows \(streams) concurrent requests on "
        + "\(connections)\(rate(streams, metrics)). \(more)"
    case .window:
      return "The window is the limit: the service accepts no more bytes on "
        + "\(connections), with \(metrics.inFlight) requests in flight. Smaller payloads help. "
        + more
    case .service:
      return
        "The service is busy and sent a time to retry (retry-after): pushes wait until then."
    case .signOfLife:
      return "The connections were idle, and the service has not answered their PING yet."
    case .token:
      return "The service rejects the provider token (\(metrics.tokenRefusals) rejections): "
        + "check the key id, the team id and the clock."
    }
  }

  /// The rate that this many streams allow.
  private static func rate(_ streams: Int, _ metrics: ClientMetrics) -> String {
    guard metrics.latency.count > 0 else { return "" }
    let mean = Double(metrics.latency.sumMilliseconds) / Double(metrics.latency.count)
    guard mean >= 1 else { return "" }
    return ", and answers take \(Int(mean.rounded())) ms: "
      + "at most \(Int(Double(streams) * 1000 / mean)) a second"
  }
}
