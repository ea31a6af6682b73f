extension Limits {
  /// Decoded bytes of a channel id in a request. Apple asks clients to assume no size; the service's own have 16.
  public static let channelIDBytes = 64
  /// Bytes of a broadcast's payload. "Sending broadcast push notification requests to APNs".
  public static let broadcastPayloadBytes = 5120
}
