/// The tables of the store.
///
/// The raw value is on disk in every log record (see `WriteGroup`): values are given once and never to another family.
package enum StoreFamily: UInt8, Sendable, CaseIterable, Hashable {
  /// Notifications that wait for their device. Key: `MailboxKey`. Value: `StoredNotification`.
  case mailbox = 0
  /// Devices and the states of their topics. Key: `DeviceRecord.key`. Value: `DeviceRecord`.
  case devices = 1
  /// Facts about the store itself, such as the order ceiling.
  case meta = 2
  /// Tokens found dead, as the feedback service hands them out.
  case feedback = 3
  /// The states that a notification went through.
  case ledger = 4

  /// The name of the family in the engine.
  package var name: StaticString {
    switch self {
    case .mailbox: "mailbox"
    case .devices: "devices"
    case .meta: "meta"
    case .feedback: "feedback"
    case .ledger: "ledger"
    }
  }
}
