package import ApusModel

/// 0x1d from a device: changes its subscriptions to channels, or asks for them.
package struct CourierChannelRequest: CourierMessage {
  /// The device's choice; the confirmation repeats it.
  package var index: UInt32
  /// The connection's base token; nil if the field is missing.
  package var token: DeviceToken?
  /// Without topics and `replaces` nothing changes.
  package var subscriptions: CourierSubscriptions

  package init(index: UInt32, token: DeviceToken?, subscriptions: CourierSubscriptions) {
    self.index = index
    self.token = token
    self.subscriptions = subscriptions
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var index: UInt32?
    var token: DeviceToken?
    var subscriptions = CourierSubscriptions()
    var fields = CourierFields(.channel, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: index = try field.u32()
      case 2: subscriptions = try field.subscriptions()
      case 3: token = try field.token()
      default: break
      }
    }
    self.init(
      index: try index.required(.channel, 1), token: token, subscriptions: subscriptions)
  }

  /// Appends the frame. `subscriptions` take at most `CourierSubscriptions.maximumBytes`.
  package func encode(to output: inout [UInt8]) {
    let bytes = subscriptions.bytes
    output.appendFrame(.channel, room: 45 + bytes.count) { fields in
      fields.appendField(1, index)
      fields.appendField(2, bytes.span)
      if let token { fields.appendField(3, token) }
    }
  }
}

/// 0x1d from the service: a request of a device was carried out, durably.
package struct CourierChannelConfirmation: CourierMessage {
  /// Of a request of which some could not be applied, the rest was, except under `unavailable`.
  package struct Status: RawRepresentable, Sendable, Hashable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let applied = Status(rawValue: 0)
    /// A topic is no app's, or is not in the device's filter, or the device ignores it.
    package static let unknownTopic = Status(rawValue: 1)
    /// The app has no such channel in this environment.
    package static let unknownChannel = Status(rawValue: 2)
    /// The device would have more subscriptions than it may have.
    package static let tooMany = Status(rawValue: 3)
    /// The service could not store the change, and applied nothing.
    package static let unavailable = Status(rawValue: 4)
  }

  /// As in the request.
  package var index: UInt32
  /// The connection's base token; nil if the field is missing.
  package var token: DeviceToken?
  package var status: Status
  /// All subscriptions of the device after the request; nil where the dialect does not say them.
  package var subscriptions: CourierSubscriptions?

  package init(
    index: UInt32, token: DeviceToken?, status: Status, subscriptions: CourierSubscriptions? = nil
  ) {
    self.index = index
    self.token = token
    self.status = status
    self.subscriptions = subscriptions
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var index: UInt32?
    var token: DeviceToken?
    var status: UInt8?
    var subscriptions: CourierSubscriptions?
    var fields = CourierFields(.channel, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: index = try field.u32()
      case 2: subscriptions = try field.subscriptions()
      case 3: token = try field.token()
      case 4: status = try field.u8()
      default: break
      }
    }
    self.init(
      index: try index.required(.channel, 1), token: token,
      status: Status(rawValue: try status.required(.channel, 4)), subscriptions: subscriptions)
  }

  /// Appends the frame. `subscriptions` take at most `CourierSubscriptions.maximumBytes`.
  package func encode(to output: inout [UInt8]) {
    let bytes = subscriptions?.bytes
    output.appendFrame(.channel, room: 49 + (bytes?.count ?? 0)) { fields in
      fields.appendField(1, index)
      if let bytes { fields.appendField(2, bytes.span) }
      if let token { fields.appendField(3, token) }
      fields.appendField(4, status.rawValue)
    }
  }
}

extension CourierSubscriptions {
  /// The largest that fits into a frame, beside its other fields.
  package static let maximumBytes = 65_000

  /// Whether they fit into a frame.
  package var fitsFrame: Bool { bytes.count <= Self.maximumBytes }
}

extension CourierField {
  fileprivate func subscriptions() throws(CourierFault) -> CourierSubscriptions {
    do throws(ProtobufFault) {
      return try CourierSubscriptions(decoding: value)
    } catch {
      throw fault
    }
  }

  /// The range, within the frame's fields, of the id in a message `Channel`; empty for none.
  func channelID() throws(CourierFault) -> Range<Int> {
    do throws(ProtobufFault) {
      var id = 0..<0
      var reader = ProtobufReader(value)
      while let part = try reader.next() {
        guard part.number == 1, part.kind == .bytes else { continue }
        let end = offset + reader.offset
        id = end - part.value.count..<end
      }
      return id
    } catch {
      throw fault
    }
  }
}
