internal import ApusModel

// How a device gets its certificate and renews it. These frames belong to this service's dialect only:
//
//   0x81 enrolment request  device -> service   first frame of a connection without a certificate in TLS
//     0x40  enrolment code as typed             absent: the operator decides
//     0x41  certificate request, PKCS#10 DER    at most Limits.certificateRequestBytes
//     0x42  the device's name, UTF-8            at most Limits.deviceNameBytes; may be absent
//   0x82 enrolment answer   service -> device   then a goodbye, and the end of the connection
//   0x83 renewal request    device -> service   on a connection authenticated by the certificate
//     0x41  certificate request, PKCS#10 DER    for the same key or a new one
//   0x84 renewal answer     service -> device   the connection goes on
//   0x85 renewal advice     service -> device   renew now: the certificate will become invalid before it expires
//     0x44  seconds within which to ask (u32)   another value for each device
//
// Both answers have the same fields:
//
//     0x40  status      0 accepted, 1 pending, 2 refused
//     0x41  reason      of a refusal: see CourierIssuance.Reason
//     0x42  text        for people
//     0x43  certificate DER; the device's own first, then those up to its authority
//     0x44  seconds     after which to ask again (u32)

/// 0x81: a device without a certificate requests one.
package struct CourierEnrolmentRequest: CourierMessage {
  /// As typed; empty if the operator is to decide.
  package var code: [UInt8]
  /// PKCS#10, DER.
  package var certificateRequest: [UInt8]
  package var name: [UInt8]
  /// `KEY=VALUE` or a key alone, at most `Limits.tagsPerDevice`.
  package var tags: [[UInt8]]

  package init(
    code: [UInt8] = [], certificateRequest: [UInt8], name: [UInt8] = [], tags: [[UInt8]] = []
  ) {
    self.code = code
    self.certificateRequest = certificateRequest
    self.name = name
    self.tags = tags
  }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    self.init(certificateRequest: [])
    var request: [UInt8]?
    var fields = CourierFields(.enrolmentRequest, body)
    while let field = try fields.next() {
      switch field.id {
      case 0x40: code = try field.bytes(atMost: Limits.enrolmentCodeBytes)
      case 0x41: request = try field.bytes(atMost: Limits.certificateRequestBytes)
      case 0x42: name = try field.bytes(atMost: Limits.deviceNameBytes)
      case 0x43:
        guard tags.count < Limits.tagsPerDevice else { throw field.fault }
        tags.append(try field.bytes(atMost: Limits.deviceTagBytes))
      default: break
      }
    }
    certificateRequest = try request.required(.enrolmentRequest, 0x41)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(
      .enrolmentRequest,
      room: 9 + code.count + certificateRequest.count + name.count
        + tags.reduce(0) { $0 + 3 + $1.count }
    ) { fields in
      if !code.isEmpty { fields.appendField(0x40, code.span) }
      fields.appendField(0x41, certificateRequest.span)
      if !name.isEmpty { fields.appendField(0x42, name.span) }
      for tag in tags { fields.appendField(0x43, tag.span) }
    }
  }
}

/// 0x83: a device requests the successor of the certificate that authenticated the connection.
package struct CourierRenewalRequest: CourierMessage {
  /// PKCS#10, DER.
  package var certificateRequest: [UInt8]

  package init(certificateRequest: [UInt8]) { self.certificateRequest = certificateRequest }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var request: [UInt8]?
    var fields = CourierFields(.renewalRequest, body)
    while let field = try fields.next() {
      if field.id == 0x41 { request = try field.bytes(atMost: Limits.certificateRequestBytes) }
    }
    certificateRequest = try request.required(.renewalRequest, 0x41)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.renewalRequest, room: 3 + certificateRequest.count) { fields in
      fields.appendField(0x41, certificateRequest.span)
    }
  }
}

/// The outcome of a request for a certificate.
package struct CourierIssuance: Sendable, Hashable {
  package struct Status: RawRepresentable, Sendable, Hashable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let accepted = Status(rawValue: 0)
    /// The operator has not decided yet. The device asks again with the same key.
    package static let pending = Status(rawValue: 1)
    package static let refused = Status(rawValue: 2)
  }

  package struct Reason: RawRepresentable, Sendable, Hashable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The code is not valid. The answer does not reveal whether it never existed, was used up or has expired.
    package static let code = Reason(rawValue: 1)
    /// The certificate request or the name is not acceptable.
    package static let request = Reason(rawValue: 2)
    /// Too many recent requests, by this address or in total; a later one may succeed.
    package static let tooMany = Reason(rawValue: 3)
    /// The service cannot issue now; a later request may succeed.
    package static let unavailable = Reason(rawValue: 4)
    /// The service does not accept such requests.
    package static let notOffered = Reason(rawValue: 5)
    /// The operator rejected it.
    package static let rejected = Reason(rawValue: 6)
    /// The certificate is too young to be renewed.
    package static let early = Reason(rawValue: 7)
    /// The device was retired.
    package static let retired = Reason(rawValue: 8)
  }

  package var status: Status
  /// Of a refusal.
  package var reason: Reason?
  /// For people.
  package var text: [UInt8]
  /// DER, the device's own first.
  package var certificates: [[UInt8]]
  package var retrySeconds: UInt32?

  package init(
    status: Status, reason: Reason? = nil, text: [UInt8] = [], certificates: [[UInt8]] = [],
    retrySeconds: UInt32? = nil
  ) {
    self.status = status
    self.reason = reason
    self.text = text
    self.certificates = certificates
    self.retrySeconds = retrySeconds
  }

  init(_ command: CourierCommand, decoding body: Span<UInt8>) throws(CourierFault) {
    var status: Status?
    self.init(status: .refused)
    var fields = CourierFields(command, body)
    while let field = try fields.next() {
      switch field.id {
      case 0x40: status = Status(rawValue: try field.u8())
      case 0x41: reason = Reason(rawValue: try field.u8())
      case 0x42: text = field.value.copied()
      case 0x43: certificates.append(field.value.copied())
      case 0x44: retrySeconds = try field.u32()
      default: break
      }
    }
    self.status = try status.required(command, 0x40)
    if self.status == .accepted, certificates.isEmpty {
      throw .missingField(command: command.rawValue, id: 0x43)
    }
  }

  func encode(as command: CourierCommand, to output: inout [UInt8]) {
    let room = certificates.reduce(18 + text.count) { $0 + 3 + $1.count }
    output.appendFrame(command, room: room) { fields in
      fields.appendField(0x40, status.rawValue)
      if let reason { fields.appendField(0x41, reason.rawValue) }
      if !text.isEmpty { fields.appendField(0x42, text.span) }
      for certificate in certificates { fields.appendField(0x43, certificate.span) }
      if let retrySeconds { fields.appendField(0x44, retrySeconds) }
    }
  }
}

/// 0x82: the answer to 0x81.
package struct CourierEnrolmentAnswer: CourierMessage {
  package var issuance: CourierIssuance

  package init(_ issuance: CourierIssuance) { self.issuance = issuance }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    issuance = try CourierIssuance(.enrolmentAnswer, decoding: body)
  }

  package func encode(to output: inout [UInt8]) {
    issuance.encode(as: .enrolmentAnswer, to: &output)
  }
}

/// 0x85: the authority of the device's certificate is being replaced.
package struct CourierRenewalAdvice: CourierMessage {
  /// Seconds within which to request the next one.
  package var withinSeconds: UInt32

  package init(withinSeconds: UInt32) { self.withinSeconds = withinSeconds }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    var seconds: UInt32?
    var fields = CourierFields(.renewalAdvice, body)
    while let field = try fields.next() {
      if field.id == 0x44 { seconds = try field.u32() }
    }
    withinSeconds = try seconds.required(.renewalAdvice, 0x44)
  }

  package func encode(to output: inout [UInt8]) {
    output.appendFrame(.renewalAdvice, room: 7) { $0.appendField(0x44, withinSeconds) }
  }
}

/// 0x84: the answer to 0x83.
package struct CourierRenewalAnswer: CourierMessage {
  package var issuance: CourierIssuance

  package init(_ issuance: CourierIssuance) { self.issuance = issuance }

  package init(decoding body: Span<UInt8>) throws(CourierFault) {
    issuance = try CourierIssuance(.renewalAnswer, decoding: body)
  }

  package func encode(to output: inout [UInt8]) {
    issuance.encode(as: .renewalAnswer, to: &output)
  }
}

extension CourierField {
  /// A value of no more bytes than a limit.
  fileprivate func bytes(atMost limit: Int) throws(CourierFault) -> [UInt8] {
    guard value.count <= limit else { throw fault }
    return value.copied()
  }
}
