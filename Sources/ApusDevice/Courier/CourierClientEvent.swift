package import ApusModel
package import ApusTrust
package import ApusWire

/// An event of a courier client for its connection.
package enum CourierClientEvent: Sendable {
  /// The service accepted the device. `isNewToken`: the base token has changed, and the tokens of apps may have changed
  /// with it. `hint`: see ``CourierConnectResponse/hint``.
  case connected(token: DeviceToken, serverMilliseconds: UInt64, isNewToken: Bool, hint: String)
  /// The service refused the device; it closes.
  case refused(CourierRefusal)
  /// The answer to the request for a first certificate; the service closes.
  case issued(CourierIssuance)
  /// The answer to the request for the next certificate.
  case renewal(CourierIssuance)
  /// The service will stop accepting the certificate before it expires: request the next one within these seconds.
  case renewalAdvised(withinSeconds: UInt32)
  /// The token that an app gives its provider.
  case appToken(topic: TopicHash, token: DeviceToken)
  /// The service has no token for the topic.
  case tokenRefused(topic: TopicHash, status: UInt8)
  /// A new notification, to be acknowledged.
  case notification(CourierArrival)
  /// The service carried out a request about channels.
  case subscriptions(CourierChannelConfirmation)
  /// No stored notifications.
  case noStorage
  /// The service is about to close, with its reason, and after how many milliseconds the device should return, if
  /// given.
  case goodbye(reason: String, reconnectMilliseconds: UInt32?)
  /// The connection cannot continue.
  case fault(CourierClientFault)
}

/// The service's refusal of a device.
package struct CourierRefusal: Sendable, Hashable {
  package var status: CourierConnectResponse.Status
  package var serverMilliseconds: UInt64
  /// The service's time in Unix milliseconds, if it rejected the nonce's time.
  package var badNonceServerMilliseconds: UInt64?
  /// The service's reason and remedy; may be empty.
  package var explanation: String

  package init(
    status: CourierConnectResponse.Status, serverMilliseconds: UInt64,
    badNonceServerMilliseconds: UInt64?, explanation: String = ""
  ) {
    self.status = status
    self.serverMilliseconds = serverMilliseconds
    self.badNonceServerMilliseconds = badNonceServerMilliseconds
    self.explanation = explanation
  }
}

/// A notification as it arrived. Payload and collapse id remain in the input bytes.
package struct CourierArrival: Sendable {
  package let view: CourierNotificationView
  let frame: CourierFrame

  package var notification: CourierNotification { view.notification }

  /// The payload. `input` is the span that was read when the notification was reported.
  @_lifetime(copy input, borrow self)
  package func payload(in input: Span<UInt8>) -> Span<UInt8> {
    frame.fields(in: input).extracting(view.payload)
  }

  /// The collapse id; empty for none. `input` as for `payload`.
  @_lifetime(copy input, borrow self)
  package func collapseID(in input: Span<UInt8>) -> Span<UInt8> {
    frame.fields(in: input).extracting(view.collapseID)
  }

  /// The id of the channel that it came over; empty for none. `input` as for `payload`.
  @_lifetime(copy input, borrow self)
  package func channelID(in input: Span<UInt8>) -> Span<UInt8> {
    frame.fields(in: input).extracting(view.channelID)
  }
}

/// Why a connection to the courier failed.
package enum CourierClientFault: Error, Sendable, Hashable {
  /// The service's bytes are not the courier protocol.
  case malformed(CourierFault)
  /// A frame of this command came at a point where the protocol does not allow it.
  case unexpected(command: UInt8)
  /// An acceptance without a base token, for a device that has none.
  case noToken
  /// The connect message was not answered in time.
  case noResponse
  /// A keep-alive was not answered in time.
  case noAnswer
}

extension CourierClientFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .malformed(let fault): "the service broke the protocol: \(fault)"
    case .unexpected(let command): "the service sent command \(command) out of turn"
    case .noToken: "the service accepted the device but sent no token"
    case .noResponse: "the service did not answer the connect message in time"
    case .noAnswer: "the service did not answer a keep-alive in time"
    }
  }
}

/// The proof of a device's identity inside the connect message, with `CourierALPN.securityV3`. For one use.
package struct CourierProof: Sendable, Hashable {
  package var certificateDER: [UInt8]
  package var nonce: [UInt8]
  package var signature: [UInt8]

  package init(certificateDER: [UInt8], nonce: [UInt8], signature: [UInt8]) {
    self.certificateDER = certificateDER
    self.nonce = nonce
    self.signature = signature
  }

  /// Signs a nonce with the RSA key of the certificate.
  ///
  /// - Parameters:
  ///   - milliseconds: Unix time, within `Limits.courierNonceSeconds` of the service's.
  ///   - random: 8 bytes, from `randomBytes`.
  package init(
    certificateDER: [UInt8], key: PrivateKey, milliseconds: UInt64, random: [UInt8]
  ) throws(TrustFault) {
    let signed = try NonceProof.sign(
      milliseconds: milliseconds, random: random, key: key)
    self.init(certificateDER: certificateDER, nonce: signed.nonce, signature: signed.signature)
  }
}
