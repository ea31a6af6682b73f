/// The tables of the store.
///
/// The raw value is on disk in every log record (see `WriteGroup`): a value is never reused for another family.
package enum StoreFamily: UInt8, Sendable, CaseIterable, Hashable {
  /// Stored notifications. Key: `MailboxKey`. Value: `StoredNotification`.
  case mailbox = 0
  /// Devices and the states of their topics. Key: `DeviceRecord.key`. Value: `DeviceRecord`.
  case devices = 1
  /// Data about the store itself, such as the order ceiling.
  case meta = 2
  /// Dead tokens, for the feedback service.
  case feedback = 3
  /// The states of notifications.
  case ledger = 4
  /// Channels. Keys and values: `ChannelRecord`.
  case channels = 5
  /// What goes upstream. Keys and values: `RelayRecord`.
  case relay = 6

  /// The name of the family in the engine.
  package var name: StaticString {
    switch self {
    case .mailbox: "mailbox"
    case .devices: "devices"
    case .meta: "meta"
    case .feedback: "feedback"
    case .ledger: "ledger"
    case .channels: "channels"
    case .relay: "relay"
    }
  }
}
