/// What a client is doing, and its counts since its creation.
public struct ClientMetrics: Sendable, Hashable {
  /// What pushes wait for; at any time, all wait for the same.
  public enum Limit: String, Sendable, Hashable, CaseIterable {
    /// A connection: there is none.
    case connection
    /// Streams: the service allows no more concurrent requests.
    case streams
    /// The flow control window: the service accepts no more bytes now.
    case window
    /// The service, which is busy and sent `retry-after`.
    case service
    /// The answer to a PING on an idle connection.
    case signOfLife
    /// A provider token that the service accepts.
    case token
  }

  /// One connection.
  public struct Connection: Sendable, Hashable {
    public var address: String
    /// Requests without an answer.
    public var openRequests: Int
    /// Concurrent requests that the service allows.
    public var streamLimit: Int
    /// Bytes of bodies that the service accepts now.
    public var windowBytes: Int
    public var answers: Int
  }

  /// Pushes on a stream.
  public var inFlight = 0
  /// Pushes without a stream.
  public var waiting = 0
  /// What the waiting pushes wait for now.
  public var waitingFor: Limit?
  /// Total time that pushes have waited, by cause: seconds, summed over all pushes.
  public var waitedSeconds: [Limit: Double] = [:]
  /// Pushes by outcome.
  public var accepted: UInt64 = 0
  public var rejected: UInt64 = 0
  public var unknown: UInt64 = 0
  /// Requests that the client sent again.
  public var resent: UInt64 = 0
  /// Rejections that concern the provider token.
  public var tokenRefusals: UInt64 = 0
  public var connectionsMade: UInt64 = 0
  public var connectionsFailed: UInt64 = 0
  public var connections: [Connection] = []
  /// From a request to its answer.
  public var latency = LatencyHistogram()
  /// Seconds since the provider token's `iat`; nil without a token.
  public var tokenAgeSeconds: Int64?
  /// How far the service's clock is ahead of this machine's; nil: the service has not sent its time.
  public var clockSkewSeconds: Int64?
  /// Why the last connection attempt failed, or the last connection ended without an answer.
  public var lastFailure: String?

  init() {}

  /// A message about the two clocks, if they differ by more than network delay explains.
  public var clockText: String? {
    guard let skew = clockSkewSeconds, abs(skew) >= ClientCredentials.skewSeconds else {
      return nil
    }
    return "This machine's clock is \(abs(skew)) seconds \(skew > 0 ? "behind" : "ahead of") the "
      + "service's: correct it, because provider tokens depend on it."
  }
}

extension ClientMetrics: CustomStringConvertible {
  public var description: String {
    "\(accepted) accepted, \(rejected) rejected, \(unknown) unknown, \(resent) sent again, "
      + "\(inFlight) in flight, \(waiting) waiting\(waitingFor.map { " (\($0.rawValue))" } ?? ""), "
      + "connections: \(connections.count), answers: \(latency)"
  }
}

extension WaitingFor {
  var limit: ClientMetrics.Limit {
    switch self {
    case .connection: .connection
    case .streams: .streams
    case .silence: .signOfLife
    case .window: .window
    case .service: .service
    }
  }
}
