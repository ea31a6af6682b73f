import ApusCore
import ApusModel
import ApusStore

extension Notification {
  /// Puts the notification into its place in the mailbox.
  func put(into group: inout WriteGroup) {
    let payload = payload
    let collapseID = collapseID
    group.put(
      StoredNotification.Fields(
        acceptanceOrder: order, expirationSeconds: expirationSeconds,
        acceptedMilliseconds: acceptedMilliseconds, messageID: messageID, id: id,
        uniqueID: uniqueID, token: token, priority: priority, pushType: pushType,
        flags: (isBackground ? StoredNotification.Fields.isBackground : 0)
          | (interface == .binary ? StoredNotification.Fields.isBinary : 0)
          | (mayBeRepeated ? StoredNotification.Fields.mayBeRepeated : 0)),
      collapseID: collapseID.span, payload: payload.span,
      at: MailboxKey(
        device: claims.device, topic: claims.topic, environment: claims.environment,
        index: slotIndex))
  }

  /// Takes what a record of the mailbox holds; `place` is the record's key.
  func fill(from stored: StoredNotification, in value: Span<UInt8>, at place: MailboxKey) {
    let fields = stored.fields
    order = fields.acceptanceOrder
    expirationSeconds = fields.expirationSeconds
    acceptedMilliseconds = fields.acceptedMilliseconds
    id = fields.id
    uniqueID = fields.uniqueID
    interface = fields.interface
    token = fields.token
    priority = fields.priority
    pushType = fields.pushType
    isBackground = fields.flags & StoredNotification.Fields.isBackground != 0
    isFromStorage = true
    mayBeRepeated = fields.flags & StoredNotification.Fields.mayBeRepeated != 0
    slotIndex = place.index
    claims = TokenClaims(
      device: place.device, topic: place.topic, environment: place.environment, generation: 0)
    payload.set(value.extracting(stored.payload))
    collapseID.set(value.extracting(stored.collapseID))
  }
}

extension StoredNotification {
  /// Who it is, read from `value`, that waits at `place`.
  func facts(in value: Span<UInt8>, at place: MailboxKey) -> StoredFacts {
    StoredFacts(
      facts: fields.facts(at: place), index: place.index,
      isBackground: fields.flags & Fields.isBackground != 0,
      collapseID: collapseID.isEmpty ? [] : value.extracting(collapseID).copied())
  }
}

extension StoredNotification.Fields {
  /// By which interface the notification came.
  fileprivate var interface: ProviderInterface {
    flags & Self.isBinary == 0 ? .http2 : .binary
  }

  /// Who the notification is that waits at `place`.
  func facts(at place: MailboxKey) -> NotificationFacts {
    NotificationFacts(
      order: acceptanceOrder, id: id, uniqueID: uniqueID, device: place.device, topic: place.topic,
      environment: place.environment, tokenPrefix: token.words.0, pushType: pushType,
      priority: priority, interface: interface)
  }
}
