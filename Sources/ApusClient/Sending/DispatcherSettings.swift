/// A dispatcher's times and limits. Milliseconds of the loop's clock.
struct DispatcherSettings {
  /// The `:authority` of requests.
  var authority: [UInt8] = []
  /// Most single pushes that may wait.
  var queueCapacity = 10_000
  var maximumConnections = 8
  /// Connections that stay open without work.
  var idleConnections = 1
  /// How long pushes must have waited without a break before another connection is opened.
  var growAfterMilliseconds: UInt64 = 100
  /// How long a connection must be idle before it is closed, while there are more than ``idleConnections``.
  var shrinkAfterMilliseconds: UInt64 = 60_000
  /// Silence after which the service gets a PING.
  var pingAfterMilliseconds: UInt64 = 60_000
  /// How long the answer to a PING may take.
  var pingTimeoutMilliseconds: UInt64 = 5000
  /// How long the first SETTINGS may take, and those that allow a request.
  var readyTimeoutMilliseconds: UInt64 = 10_000
  /// How long pushes of a bulk send may wait without any progress.
  var stallMilliseconds: UInt64 = 30_000
  /// Whether pushes that a busy service rejected are sent again.
  var retriesRefusals = true
}
