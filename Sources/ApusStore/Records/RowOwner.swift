package import ApusModel

/// Whom a row is about, and so in which part of a cluster's devices it is.
package enum RowOwner: Sendable, Hashable {
  case device(DeviceID)
  /// The device that the token was issued to.
  case token(DeviceToken)
  /// The part that has written the row: what its workers have counted, and what exists once.
  case part

  package init(_ family: StoreFamily, key: Span<UInt8>) throws(RecordError) {
    switch family {
    case .mailbox: self = .device(try MailboxKey(decoding: key).device)
    case .devices: self = .device(try DeviceRecord.decode(key: key).device)
    case .feedback: self = .token(try FeedbackRecord.token(inKey: key))
    case .channels where key.count > 0 && key[0] == SubscriptionRecord.kind:
      self = .device(try SubscriptionRecord.decode(key: key).device)
    case .channels, .meta, .ledger, .relay: self = .part
    }
  }
}
