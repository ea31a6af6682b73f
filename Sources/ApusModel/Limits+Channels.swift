extension Limits {
  /// Channels of an app in one environment. "Sending channel management requests to APNs".
  public static let channelsPerApp = 10_000
  /// Decoded bytes of a channel id in a request. Apple asks clients to assume no size; the service's own have 16.
  public static let channelIDBytes = 64
  /// Bytes of the JSON that creates a channel. Its two members take 60.
  public static let channelBodyBytes = 1024
  /// Bytes of a broadcast's payload. "Sending broadcast push notification requests to APNs".
  public static let broadcastPayloadBytes = 5120
}
