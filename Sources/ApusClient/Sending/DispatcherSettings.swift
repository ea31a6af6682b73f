/// What a dispatcher is told about times and bounds. Milliseconds of the loop's clock.
struct DispatcherSettings {
  /// The `:authority` of requests.
  var authority: [UInt8] = []
  /// Pushes of single sends that may wait.
  var queueCapacity = 10_000
  var maximumConnections = 8
  /// For how long pushes must have waited without a break before another connection is made.
  var growAfterMilliseconds: UInt64 = 100
  /// For how long a connection must have been without pushes before it is ended, while there are others.
  var shrinkAfterMilliseconds: UInt64 = 60_000
  /// Silence after which the service is asked for a sign of life.
  var pingAfterMilliseconds: UInt64 = 60_000
  /// For how long the sign of life may take.
  var pingTimeoutMilliseconds: UInt64 = 5000
  /// For how long the first SETTINGS may take.
  var readyTimeoutMilliseconds: UInt64 = 10_000
  /// For how long pushes of a bulk send may wait while nothing at all goes on.
  var stallMilliseconds: UInt64 = 30_000
  /// Whether what a busy service refused is sent again by itself.
  var retriesRefusals = true
}
