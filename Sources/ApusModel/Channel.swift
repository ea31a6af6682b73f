/// The identity of a channel: 16 random bytes, base64 text on the wire.
///
/// "Sending channel management requests to APNs": an id is never reused, and belongs to one app in one environment.
package struct ChannelID: Sendable, Hashable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  package static let byteCount = 16

  /// Nil unless there are 16 bytes.
  package init?(bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    (high, low) = (0, 0)
    for index in 0..<8 {
      high = high &<< 8 | UInt64(bytes[index])
      low = low &<< 8 | UInt64(bytes[index + 8])
    }
  }

  package var bytes: [UInt8] {
    [high, low].flatMap { half in
      (0..<8).map { UInt8(truncatingIfNeeded: half &>> UInt64(56 - 8 * $0)) }
    }
  }
}

/// What the service keeps of a channel's broadcasts for devices that are offline. It is chosen when the channel is
/// created, and never changes.
///
/// The raw value is the `message-storage-policy` of Sending channel management requests to APNs.
public enum ChannelStorage: UInt8, Sendable, CaseIterable, Hashable {
  /// Nothing: a broadcast reaches the devices that are connected, and more broadcasts are allowed. Every broadcast must
  /// have expiration 0; the service rejects any other.
  case none = 0
  /// The newest broadcast, until its expiration and for at most 8 hours.
  case newest = 1

  /// For commands and the administration.
  package var name: String {
    switch self {
    case .none: "none"
    case .newest: "newest"
    }
  }

  package init?(name: String) {
    guard let storage = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = storage
  }
}

/// A channel: one broadcast on it goes to every device that is subscribed to it.
package struct Channel: Sendable, Hashable {
  package var id: ChannelID
  package var app: AppID
  package var environment: Environment
  package var storage: ChannelStorage
  /// Unix milliseconds.
  package var createdMilliseconds: Int64

  package init(
    id: ChannelID, app: AppID, environment: Environment, storage: ChannelStorage,
    createdMilliseconds: Int64
  ) {
    self.id = id
    self.app = app
    self.environment = environment
    self.storage = storage
    self.createdMilliseconds = createdMilliseconds
  }
}
