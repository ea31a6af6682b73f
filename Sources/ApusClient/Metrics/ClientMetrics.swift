/// What a client is doing, and has done since it was made.
public struct ClientMetrics: Sendable, Hashable {
  /// What pushes wait for, at one time all for the same.
  public enum Limit: String, Sendable, Hashable, CaseIterable {
    /// A connection: none is there.
    case connection
    /// Streams: the service takes no more requests at a time.
    case streams
    /// The window: the service takes no more bytes at a time.
    case window
    /// The service, which is too busy and said when to come back.
    case service
    /// A quiet connection's sign of life.
    case signOfLife
    /// A provider token that the service takes.
    case token
  }

  /// One connection.
  public struct Connection: Sendable, Hashable {
    public var address: String
    /// Requests without an answer.
    public var openRequests: Int
    /// Requests that the service takes at a time.
    public var streamLimit: Int
    /// Bytes of bodies that the service has room for now.
    public var windowBytes: Int
    public var answers: Int
  }

  /// Pushes on a stream.
  public var inFlight = 0
  /// Pushes without a stream.
  public var waiting = 0
  /// What these wait for now.
  public var waitingFor: Limit?
  /// For how long pushes have waited in all, for what: seconds of each push, added up.
  public var waitedSeconds: [Limit: Double] = [:]
  /// Pushes by their outcome.
  public var accepted: UInt64 = 0
  public var rejected: UInt64 = 0
  public var unknown: UInt64 = 0
  /// Requests that were made again by themselves.
  public var resent: UInt64 = 0
  /// Refusals that speak of the provider token.
  public var tokenRefusals: UInt64 = 0
  public var connectionsMade: UInt64 = 0
  public var connectionsFailed: UInt64 = 0
  public var connections: [Connection] = []
  /// From a request to its answer.
  public var latency = LatencyHistogram()
  /// Seconds since the provider token's `iat`; nil where none was made.
  public var tokenAgeSeconds: Int64?
  /// How far the service's clock is ahead of this machine's; nil: it never said.
  public var clockSkewSeconds: Int64?
  /// Why a connection could not be made, or ended without an answer, last.
  public var lastFailure: String?

  init() {}

  /// What is to be said of the two clocks, where they differ by more than the way explains.
  public var clockText: String? {
    guard let skew = clockSkewSeconds, abs(skew) >= ClientCredentials.skewSeconds else {
      return nil
    }
    return "This machine's clock is \(abs(skew)) seconds \(skew > 0 ? "behind" : "ahead of") the "
      + "service's: set it right, provider tokens live by it."
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
