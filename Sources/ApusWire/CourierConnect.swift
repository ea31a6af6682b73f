package import ApusModel

/// 0x07: the first frame of a connection. Informational fields (carrier, system, times) are skipped.
package struct CourierConnect: CourierMessage {
  /// The base token of an earlier connection; nil if absent or invalid. The answer to both contains the right one.
  package var token: DeviceToken?
  /// 1 in every known client.
  package var state: UInt8
  /// "Presence" flags, 0x41 in most clients.
  package var flags: UInt32
  /// 0 cellular, 1 Wi-Fi.
  package var interface: UInt8?
  package var protocolVersion: UInt16?
  /// The device's certificate (DER), the nonce and its signature; empty except under `CourierALPN.securityV3`. The
  /// verifier checks their lengths, because a bad proof gets an answer and is not a framing fault.
  package var certificate: [UInt8]
  package var nonce: [UInt8]
  package var signature: [UInt8]

  package init(
    token: DeviceToken? = nil, state: UInt8 = 1, flags: UInt32 = 0x41, interface: UInt8? = nil,
    protocolVersion: UInt16? = nil, certificate: [UInt8] = [], nonce: [UInt8] = [],
    signature: [UInt8] = []
  ) {
    self.token = token
    self.state = state
    self.flags = flags
    self.interface = interface
    self.protocolVersion = protocolVersion
    self.certificate = certificate
    self.nonce = nonce
    self.signature = signature
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    self.init(state: 1, flags: 0)
    var fields = CourierFields(.connect, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: token = DeviceToken(bytes: field.value)
      case 2: state = try field.u8()
      case 5: flags = try field.u32()
      case 6: interface = try field.u8()
      case 12: certificate = field.value.copied()
      case 13: nonce = field.value.copied()
      case 14: signature = field.value.copied()
      case 16: protocolVersion = try field.u16()
      default: break
      }
    }
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.connect, room: 64 + certificate.count + nonce.count + signature.count) {
      fields in
      if let token { fields.appendField(1, token) }
      fields.appendField(2, state)
      fields.appendField(5, flags)
      if let interface { fields.appendField(6, interface) }
      if !certificate.isEmpty { fields.appendField(12, certificate.span) }
      if !nonce.isEmpty { fields.appendField(13, nonce.span) }
      if !signature.isEmpty { fields.appendField(14, signature.span) }
      if let protocolVersion { fields.appendField(16, protocolVersion) }
    }
  }
}

/// What a device signs under `CourierALPN.securityV3`: 17 bytes.
package struct CourierNonce: Sendable, Hashable {
  /// When it was made, in Unix milliseconds.
  package var milliseconds: UInt64
  package var random: UInt64

  package static let byteCount = 17

  package init(milliseconds: UInt64, random: UInt64) {
    self.milliseconds = milliseconds
    self.random = random
  }

  /// Takes 17 bytes, the first of which is 0: 1 marks another use of the scheme.
  package init?(_ bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount, bytes[0] == 0 else { return nil }
    milliseconds = bytes.bigEndianUInt64(at: 1)
    random = bytes.bigEndianUInt64(at: 9)
  }

  package var bytes: [UInt8] {
    var output: [UInt8] = [0]
    output.append(bigEndian: milliseconds)
    output.append(bigEndian: random)
    return output
  }
}

/// 0x08: the answer to a connect message.
package struct CourierConnectResponse: CourierMessage {
  package struct Status: RawRepresentable, Sendable, Hashable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let accepted = Status(rawValue: 0)
    /// The device could not be authenticated. The server closes.
    package static let refused = Status(rawValue: 2)
  }

  package var status: Status
  /// The device's base token, in every accepting response, changed or not.
  package var token: DeviceToken?
  /// The largest payload of a notification in bytes.
  package var maximumMessageBytes: UInt16
  package var protocolVersion: UInt16
  /// A bit mask of unknown meaning; 0 satisfies every client.
  package var capabilities: UInt32
  /// The server's time in Unix milliseconds if the nonce's time was rejected.
  package var badNonceServerMilliseconds: UInt64?
  package var largeMessageBytes: UInt16
  /// The server's time in Unix milliseconds.
  package var serverMilliseconds: UInt64
  /// 0x40, an extension: why a device was refused and what to do, for people and logs; may be empty.
  package var explanation: String
  /// 0x41, an extension, in an accepting response: where the node that serves is reached, as HOST:PORT, if the device
  /// is connected to another one; empty if it is not, or if nobody said where. The device tries it first the next time.
  package var hint: String

  package init(
    status: Status, token: DeviceToken?, serverMilliseconds: UInt64,
    badNonceServerMilliseconds: UInt64? = nil,
    maximumMessageBytes: UInt16 = UInt16(Limits.voipPayloadBytes),
    largeMessageBytes: UInt16 = UInt16(Limits.voipPayloadBytes), protocolVersion: UInt16 = 2,
    capabilities: UInt32 = 0, explanation: String = "", hint: String = ""
  ) {
    self.status = status
    self.token = token
    self.maximumMessageBytes = maximumMessageBytes
    self.protocolVersion = protocolVersion
    self.capabilities = capabilities
    self.badNonceServerMilliseconds = badNonceServerMilliseconds
    self.largeMessageBytes = largeMessageBytes
    self.serverMilliseconds = serverMilliseconds
    self.explanation = explanation
    self.hint = hint
  }

  /// Reads a response. Fields that a server always sends are required.
  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var status: Status?
    var token: DeviceToken?
    var maximum: UInt16?
    var version: UInt16?
    var capabilities: UInt32?
    var badNonceTime: UInt64?
    var large: UInt16?
    var time: UInt64?
    var (explanation, hint) = ("", "")
    var fields = CourierFields(.connectResponse, body)
    while let field = try fields.next() {
      switch field.id {
      case 1: status = Status(rawValue: try field.u8())
      case 3: token = try field.token()
      case 4: maximum = try field.u16()
      case 5: version = try field.u16()
      case 6: capabilities = try field.u32()
      case 7: badNonceTime = try field.u64()
      case 8: large = try field.u16()
      case 10: time = try field.u64()
      case 0x40: explanation = field.value.text
      case 0x41: hint = field.value.text
      default: break
      }
    }
    self.init(
      status: try status.required(.connectResponse, 1), token: token,
      serverMilliseconds: try time.required(.connectResponse, 10),
      badNonceServerMilliseconds: badNonceTime,
      maximumMessageBytes: try maximum.required(.connectResponse, 4),
      largeMessageBytes: try large.required(.connectResponse, 8),
      protocolVersion: try version.required(.connectResponse, 5),
      capabilities: try capabilities.required(.connectResponse, 6), explanation: explanation,
      hint: hint)
  }

  /// Appends the frame. Clients cannot parse one without fields 4, 5, 6 and 10, even a refusal.
  package func encode(to output: inout [UInt8]) {
    let (text, place) = (Array(explanation.utf8), Array(hint.utf8))
    output.appendFrame(.connectResponse, room: 89 + text.count + place.count) { fields in
      fields.appendField(1, status.rawValue)
      if let token { fields.appendField(3, token) }
      fields.appendField(4, maximumMessageBytes)
      fields.appendField(5, protocolVersion)
      fields.appendField(6, capabilities)
      if let time = badNonceServerMilliseconds { fields.appendField(7, time) }
      fields.appendField(8, largeMessageBytes)
      fields.appendField(10, serverMilliseconds)
      if !text.isEmpty { fields.appendField(0x40, text.span) }
      if !place.isEmpty { fields.appendField(0x41, place.span) }
    }
  }
}
