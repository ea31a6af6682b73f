import ApusCore
import ApusHTTP2
import ApusModel
import ApusTLS
import ApusTrust

// Rules of both interfaces.

extension Connection {
  /// The interceptor's state for this connection; nil in a normal service.
  func intercept(
    _ interface: ProviderInterface, _ shard: ShardDriver
  ) -> Interception? {
    guard let shared = context.shared.interception else { return nil }
    return Interception(shared, self, shard, interface, credential: certificateText)
  }

  private var certificateText: String? {
    guard let der = tls.peerCertificateDER else { return nil }
    guard let certificate = try? Certificate(der: der.span) else { return "certificate" }
    let subject = certificate.subject
    return "certificate for \(subject.userID ?? subject.commonName ?? certificate.serial)"
  }

  /// The interceptor has assigned a device to an unknown token, or declined.
  func adopted(_ token: DeviceToken?, _ key: UInt32) {
    (driver as? HTTP2Provider)?.adopted(token, key)
    (driver as? BinaryProvider)?.adopted(token, key)
  }

  /// The interceptor has added an app, or declined.
  func adoptedApp(_ isAdded: Bool, _ key: UInt32) {
    (driver as? HTTP2Provider)?.adoptedApp(isAdded, key)
  }

  /// The preparation that a request waited for is done.
  func prepared(_ key: UInt32) {
    (driver as? HTTP2Provider)?.prepared(key)
    (driver as? BinaryProvider)?.prepared(key)
  }
}

// Idle timeouts use the monotonic clock, which cannot be set. If the service's own clock was moved, they are also
// checked against that.

extension ConnectionTable {
  /// The service's clock was set: ends connections that were idle for too long by that clock.
  func clockChanged() {
    for connection in awakeConnections {
      (connection.driver as? HTTP2Provider)?.clockChanged()
      (connection.driver as? BinaryProvider)?.clockChanged()
    }
  }
}

extension HTTP2Provider {
  fileprivate func clockChanged() {
    guard let interception = intercepting, interception.idleSeconds >= Limits.providerIdleSeconds,
      session.openStreamCount == 0
    else { return }
    end(.idleTimeout)
  }
}

extension BinaryProvider {
  fileprivate func clockChanged() {
    guard let interception = intercepting, interception.idleSeconds >= Limits.binaryIdleSeconds,
      machine.pendingCount == 0
    else { return }
    machine.finish()
    connection.markDirty()
  }
}

extension PlannedFault.Effect {
  /// Whether the interface can express the effect.
  func strikes(_ interface: ProviderInterface) -> Bool {
    switch self {
    case .none: false
    case .preparation, .respond, .delay, .noAnswer, .deadToken, .closeInTheMiddle: true
    case .resetStream, .goAway: interface == .http2
    case .binaryError, .binarySilence, .binaryShutdown: interface == .binary
    }
  }
}

extension Explanation {
  /// Whether lenient mode forgives the rejection.
  ///
  /// The age of a token still counts: it does not identify the provider, and developers need to test the one-hour rule.
  var isForgivable: Bool {
    switch self {
    case .signature, .unknownKey, .keyOfOtherTeam, .revokedKey, .keyEnvironment, .otherTeam,
      .otherKeyKind, .unrelatedKey, .tokenChangedTooSoon, .certificateUnusable,
      .certificateRevoked, .certificateEnvironment, .certificateTopicMissing, .topicOfOtherTeam,
      .topicNotOfKey, .topicNotOfCertificate, .channel(.bundleOfOtherTeam),
      .channel(.bundleNotOfKey), .channel(.bundleNotOfCertificate):
      true
    default: false
    }
  }
}
