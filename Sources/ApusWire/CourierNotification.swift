package import ApusModel

/// The direction of a frame: it decides the order of a notification's first two fields.
package enum CourierDirection: Sendable, Hashable {
  case toDevice
  case toServer
}

/// 0x0a: the fields of a notification that have a fixed size. Payload and collapse id stay in the bytes that they were
/// received in or are sent from.
package struct CourierNotification: Sendable, Hashable {
  package struct StorageFlags: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// On the path of each notification sent: `insert` is generic, and other modules call it unspecialised.
    package init(isFromStorage: Bool, isLast: Bool, mayBeRepeated: Bool) {
      let fromStorage: Self = isFromStorage ? .fromStorage : []
      let last: Self = isLast ? .lastFromStorage : []
      let repeated: Self = mayBeRepeated ? .mayBeRepeated : []
      self.init(rawValue: fromStorage.rawValue | last.rawValue | repeated.rawValue)
    }

    /// It was stored on the server, or is sent again.
    package static let fromStorage = StorageFlags(rawValue: 1)
    /// It is the last stored one.
    package static let lastFromStorage = StorageFlags(rawValue: 2)
    /// An extension: it may have been sent before under another message id, and is recognised by its id and topic.
    package static let mayBeRepeated = StorageFlags(rawValue: 4)
  }

  /// The token that the provider addressed; in the direction to the server, the sending device's base token.
  package var token: DeviceToken
  package var topic: TopicHash
  /// 1...0x7fffffff: one client reads it as a signed number.
  package var messageID: UInt32
  /// Unix seconds; nil for none, 0xffffffff on the wire.
  package var expirySeconds: UInt32?
  /// When the provider's request was accepted, in Unix nanoseconds.
  package var sentNanoseconds: UInt64?
  package var storage: StorageFlags
  package var priority: Priority?
  /// The `apns-id`; an extension.
  package var id: NotificationID?
  /// An extension: the raw value of `PushType`.
  package var pushType: PushType?

  package init(
    token: DeviceToken, topic: TopicHash, messageID: UInt32, expirySeconds: UInt32? = nil,
    sentNanoseconds: UInt64? = nil, storage: StorageFlags = [], priority: Priority? = nil,
    id: NotificationID? = nil, pushType: PushType? = nil
  ) {
    self.token = token
    self.topic = topic
    self.messageID = messageID
    self.expirySeconds = expirySeconds
    self.sentNanoseconds = sentNanoseconds
    self.storage = storage
    self.priority = priority
    self.id = id
    self.pushType = pushType
  }

  /// The most bytes of a frame besides payload and collapse id.
  package static let overheadBytes = 5 + 35 + 23 + 3 + 7 + 7 + 11 + 4 + 4 + 19 + 4 + 3

  /// Appends the frame. `payload` is at most 65,535 bytes; an empty `collapseID` means none. Without `extensions`
  /// (`CourierALPN.allowsExtensions`) the fields from 0x40 are left out.
  package func encode(
    payload: Span<UInt8>, collapseID: Span<UInt8>, direction: CourierDirection = .toDevice,
    extensions: Bool, to output: inout [UInt8]
  ) {
    output.appendFrame(.notification, room: Self.overheadBytes + payload.count + collapseID.count) {
      fields in
      switch direction {
      case .toDevice:
        fields.appendField(1, token)
        fields.appendField(2, topic)
      case .toServer:
        fields.appendField(1, topic)
        fields.appendField(2, token)
      }
      fields.appendField(3, payload)
      fields.appendField(4, messageID)
      fields.appendField(5, expirySeconds ?? UInt32.max)
      if let sentNanoseconds { fields.appendField(6, sentNanoseconds) }
      fields.appendField(
        7, extensions ? storage.rawValue : storage.subtracting(.mayBeRepeated).rawValue)
      if let priority { fields.appendField(13, priority.rawValue) }
      if extensions {
        if let id { fields.appendField(0x40, id) }
        if let pushType { fields.appendField(0x41, pushType.rawValue) }
        if collapseID.count > 0 { fields.appendField(0x42, collapseID) }
      }
    }
  }
}

/// A received notification: the fixed fields, and the ranges of the others within the frame's fields.
package struct CourierNotificationView: Sendable, Hashable {
  package var notification: CourierNotification
  package var payload: Range<Int>
  /// Empty for none.
  package var collapseID: Range<Int>
  /// The id of the channel that it came over; empty for none.
  package var channelID: Range<Int>

  /// Reads a notification. Without `extensions` it ignores the fields from 0x40 and the flag `mayBeRepeated`. It reads
  /// an unknown priority or push type as none.
  package init(
    decoding body: Span<UInt8>, direction: CourierDirection = .toDevice, extensions: Bool
  ) throws(CourierFault) {
    let tokenID: UInt8 = direction == .toDevice ? 1 : 2
    let topicID = 3 - tokenID
    var token: DeviceToken?
    var topic: TopicHash?
    var payload: Range<Int>?
    var messageID: UInt32?
    var expiry = UInt32.max
    var sent: UInt64?
    var storage: UInt8 = 0
    var priority: UInt8 = 0
    var id: NotificationID?
    var pushType: UInt8?
    var collapseID = 0..<0
    var channelID = 0..<0
    var fields = CourierFields(.notification, body)
    while let field = try fields.next() {
      switch field.id {
      case tokenID: token = try field.token()
      case topicID: topic = try field.topic()
      case 3: payload = field.range
      case 4: messageID = try field.u32()
      case 5: expiry = try field.u32()
      case 6: sent = try field.u64()
      case 7: storage = try field.u8()
      case 13: priority = try field.u8()
      case 29 where direction == .toDevice: channelID = try field.channelID()
      case 0x40 where extensions: id = try field.notificationID()
      case 0x41 where extensions: pushType = try field.u8()
      case 0x42 where extensions:
        guard field.value.count <= Limits.collapseIDBytes else { throw field.fault }
        collapseID = field.range
      default: break
      }
    }
    let flags = CourierNotification.StorageFlags(rawValue: storage)
    notification = CourierNotification(
      token: try token.required(.notification, tokenID),
      topic: try topic.required(.notification, topicID),
      messageID: try messageID.required(.notification, 4),
      expirySeconds: expiry == UInt32.max ? nil : expiry, sentNanoseconds: sent,
      storage: extensions ? flags : flags.subtracting(.mayBeRepeated),
      priority: Priority(rawValue: priority), id: id,
      pushType: pushType.flatMap(PushType.init(rawValue:)))
    self.payload = try payload.required(.notification, 3)
    self.collapseID = collapseID
    self.channelID = channelID
  }
}

/// 0x0b: what the device did with a notification.
package struct CourierAcknowledgement: CourierMessage {
  package struct Status: RawRepresentable, Sendable, Hashable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let taken = Status(rawValue: 0)
    package static let failed = Status(rawValue: 2)
    /// Invalid or too large.
    package static let rejected = Status(rawValue: 3)
    /// Sent before the first filter.
    package static let tooEarly = Status(rawValue: 0x80)
  }

  /// One client omits it.
  package var token: DeviceToken?
  package var messageID: UInt32
  package var status: Status

  package init(token: DeviceToken?, messageID: UInt32, status: Status = .taken) {
    self.token = token
    self.messageID = messageID
    self.status = status
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var token: DeviceToken?
    var messageID: UInt32?
    var status: UInt8?
    var fields = CourierFields(.acknowledgement, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: token = try field.token()
      case 4: messageID = try field.u32()
      case 8: status = try field.u8()
      default: break
      }
    }
    self.init(
      token: token, messageID: try messageID.required(.acknowledgement, 4),
      status: Status(rawValue: try status.required(.acknowledgement, 8)))
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.acknowledgement, room: 46) { fields in
      if let token { fields.appendField(1, token) }
      fields.appendField(4, messageID)
      fields.appendField(8, status.rawValue)
    }
  }
}
