package import ApusModel

/// 0x0c: keeps the connection alive. Answered at once with an empty 0x0d.
package struct CourierKeepAlive: CourierMessage {
  /// The time to the next one. Only Apple's clients send it.
  package var intervalMinutes: UInt32?

  package init(intervalMinutes: UInt32? = nil) { self.intervalMinutes = intervalMinutes }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var fields = CourierFields(.keepAlive, body)
    while let field = try fields.next() {
      if field.id == 5 { intervalMinutes = try field.number() }
    }
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.keepAlive, room: 5) { fields in
      if let minutes = intervalMinutes { fields.appendField(5, UInt16(clamping: minutes)) }
    }
  }

  /// Appends the answer, which has no fields.
  package static func encodeAnswer(to output: inout [UInt8]) {
    output.appendFrame(.keepAliveAnswer, room: 0) { _ in }
  }
}

/// 0x0e: no stored notification waits for the device.
package struct CourierNoStorage: CourierMessage {
  /// The connection's base token.
  package var token: DeviceToken?

  package init(token: DeviceToken?) { self.token = token }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var fields = CourierFields(.noStorage, body)
    while let field = try fields.next() {
      if field.id == 1 { token = try field.token() }
    }
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.noStorage, room: 35) { fields in
      if let token { fields.appendField(1, token) }
    }
  }
}

/// 0x0f: the device probes which frame sizes get through the network.
package struct CourierFlush: CourierMessage {
  /// Bytes of padding requested for the answer.
  package var answerPaddingBytes: UInt16
  /// Bytes of padding in this frame.
  package var paddingBytes: Int

  package init(answerPaddingBytes: UInt16, paddingBytes: Int = 0) {
    self.answerPaddingBytes = answerPaddingBytes
    self.paddingBytes = paddingBytes
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    self.init(answerPaddingBytes: 0)
    var fields = CourierFields(.flush, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: answerPaddingBytes = try field.u16()
      case 2: paddingBytes = field.value.count
      default: break
      }
    }
  }

  package func encode(to output: inout [UInt8]) {
    let padding = Self.padding(paddingBytes)
    output.appendFrame(.flush, room: 8 + padding.count) { fields in
      fields.appendField(1, answerPaddingBytes)
      fields.appendField(2, padding.span)
    }
  }

  /// Appends the answer, 0x10, with the padding requested, up to `Limits.courierFlushPaddingBytes`.
  package func encodeAnswer(to output: inout [UInt8]) {
    let padding = Self.padding(Int(answerPaddingBytes))
    output.appendFrame(.flushAnswer, room: 3 + padding.count) { fields in
      fields.appendField(2, padding.span)
    }
  }

  private static func padding(_ wanted: Int) -> [UInt8] {
    [UInt8](repeating: 0, count: min(wanted, Limits.courierFlushPaddingBytes))
  }
}

/// 0x11: requests the token that an app gives its provider.
package struct CourierAppTokenRequest: CourierMessage {
  /// The connection's base token; nil if the field is missing.
  package var token: DeviceToken?
  package var topic: TopicHash
  /// Of unknown meaning, 0 in every client; the answer repeats it.
  package var appID: UInt16?

  package init(token: DeviceToken?, topic: TopicHash, appID: UInt16? = 0) {
    self.token = token
    self.topic = topic
    self.appID = appID
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var token: DeviceToken?
    var topic: TopicHash?
    var appID: UInt16?
    var fields = CourierFields(.appTokenRequest, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: token = try field.token()
      case 2: topic = try field.topic()
      case 3: appID = try field.u16()
      default: break
      }
    }
    self.init(token: token, topic: try topic.required(.appTokenRequest, 2), appID: appID)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.appTokenRequest, room: 63) { fields in
      if let token { fields.appendField(1, token) }
      fields.appendField(2, topic)
      if let appID { fields.appendField(3, appID) }
    }
  }
}

/// 0x12: the answer to 0x11, matched by its topic.
package struct CourierAppTokenAnswer: CourierMessage {
  /// 0 for success.
  package var status: UInt8
  /// Nil on failure: the field is then sent empty, as one client expects.
  package var token: DeviceToken?
  package var topic: TopicHash
  package var appID: UInt16?

  package init(status: UInt8, token: DeviceToken?, topic: TopicHash, appID: UInt16?) {
    self.status = status
    self.token = token
    self.topic = topic
    self.appID = appID
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var status: UInt8?
    var token: DeviceToken?
    var topic: TopicHash?
    var appID: UInt16?
    var fields = CourierFields(.appTokenAnswer, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: status = try field.u8()
      case 2: token = field.value.count == 0 ? nil : try field.token()
      case 3: topic = try field.topic()
      case 4: appID = try field.u16()
      default: break
      }
    }
    self.init(
      status: try status.required(.appTokenAnswer, 1), token: token,
      topic: try topic.required(.appTokenAnswer, 3), appID: appID)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.appTokenAnswer, room: 67) { fields in
      fields.appendField(1, status)
      if let token { fields.appendField(2, token) } else { fields.appendField(2, Span()) }
      fields.appendField(3, topic)
      if let appID { fields.appendField(4, appID) }
    }
  }
}

/// 0x13: how long the device expects to stay active. Only its name and field are known.
package struct CourierSetActiveInterval: CourierMessage {
  package var interval: UInt32

  package init(interval: UInt32) { self.interval = interval }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var interval: UInt32?
    var fields = CourierFields(.setActiveInterval, body)
    while let field = try fields.next() {
      if field.id == 1 { interval = try field.number() }
    }
    self.init(interval: try interval.required(.setActiveInterval, 1))
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.setActiveInterval, room: 7) { fields in
      fields.appendField(1, interval)
    }
  }
}

/// 0x14: the device's power state. A device that never sends it counts as active.
package struct CourierSetState: CourierMessage {
  /// On the wire 1 is active and 2 low power; any other value counts as idle.
  package var state: PowerState
  /// Clients send 0x7fffffff.
  package var interval: UInt32?

  package init(_ state: PowerState, interval: UInt32? = 0x7fff_ffff) {
    self.state = state
    self.interval = interval
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var state: UInt8?
    var interval: UInt32?
    var fields = CourierFields(.setState, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: state = try field.u8()
      case 2: interval = try field.u32()
      default: break
      }
    }
    let value = try state.required(.setState, 1)
    self.init(PowerState(rawValue: value) ?? .idle, interval: interval)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.setState, room: 11) { fields in
      fields.appendField(1, state.rawValue)
      if let interval { fields.appendField(2, interval) }
    }
  }
}

/// 0x80, an extension: the server is about to close the connection, and why.
package struct CourierGoodbye: CourierMessage {
  /// For people and logs.
  package var reason: String
  /// Field 0x41: milliseconds after which the device should reconnect. Each device gets another value, so that they
  /// return spread over time. Nil if the service expects the device to stay connected.
  package var reconnectMilliseconds: UInt32?

  package init(reason: String, reconnectMilliseconds: UInt32? = nil) {
    self.reason = reason
    self.reconnectMilliseconds = reconnectMilliseconds
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    self.init(reason: "")
    var fields = CourierFields(.goodbye, body)
    while let field = try fields.next() {
      switch field.id {
      case 0x40: reason = field.value.text
      case 0x41: reconnectMilliseconds = try field.u32()
      default: break
      }
    }
  }

  package func encode(to output: inout [UInt8]) {
    let text = Array(reason.utf8)
    output.appendFrame(.goodbye, room: 3 + text.count + 7) { fields in
      fields.appendField(0x40, text.span)
      if let reconnectMilliseconds { fields.appendField(0x41, reconnectMilliseconds) }
    }
  }
}
