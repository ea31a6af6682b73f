extension Limits {
  /// Channels of an app in one environment. "Sending channel management requests to APNs".
  public static let channelsPerApp = 10_000
  /// Decoded bytes of a channel id in a request. Apple asks clients to assume no size; the service's own have 16.
  public static let channelIDBytes = 64
  /// Bytes of the JSON that creates a channel. Its two members take 60.
  public static let channelBodyBytes = 1024
  /// Bytes of a broadcast's payload. "Sending broadcast push notification requests to APNs".
  public static let broadcastPayloadBytes = 5120
  /// Seconds that a channel keeps its newest broadcast. "Sending broadcast push notification requests to APNs".
  public static let broadcastSeconds: Int64 = 8 * 3600
  /// Channels that a device may be subscribed to.
  public static let subscriptionsPerDevice = 100
  /// Broadcasts that a device may have unacknowledged, besides the notifications that are addressed to it.
  public static let broadcastWindowFrames = 8
  /// Devices that a worker turns to for broadcasts before it serves others again. With what follows, a turn takes some
  /// 0.15 ms during a broadcast, so that other pushes do not wait for longer.
  public static let broadcastDevicesAtOnce = 8
  /// Devices that a worker reads from in a turn during a broadcast: thousands acknowledge at once.
  public static let broadcastReadsAtOnce = 16
}
