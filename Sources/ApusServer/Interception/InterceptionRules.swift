import ApusCore
import ApusHTTP2
import ApusModel
import ApusTLS
import ApusTrust

// Rules of both interfaces.

extension Connection {
  /// The interceptor's state for this connection; nil in a normal service.
  func intercept(_ interface: ProviderInterface) -> Interception? {
    guard let shared = worker.interception else { return nil }
    return Interception(shared, self, interface, credential: certificateText)
  }

  private var certificateText: String? {
    guard let der = tls.peerCertificateDER else { return nil }
    guard let certificate = try? Certificate(der: der.span) else { return "certificate" }
    let subject = certificate.subject
    return "certificate for \(subject.userID ?? subject.commonName ?? certificate.serial)"
  }

  /// The interceptor has assigned a device to an unknown token, or declined.
  func adopted(_ token: DeviceToken?, _ key: UInt32) {
    switch driver {
    case .provider(let provider): provider.adopted(token, key)
    case .gateway(let provider): provider.adopted(token, key)
    case .courier, .feedback, .none: break
    }
  }

  /// The preparation that a request waited for is done.
  func prepared(_ key: UInt32) {
    switch driver {
    case .provider(let provider): provider.prepared(key)
    case .gateway(let provider): provider.prepared(key)
    case .courier, .feedback, .none: break
    }
  }
}

// Idle timeouts use the monotonic clock, which cannot be set. If the service's own clock was moved, they are also
// checked against that.

extension Worker {
  /// The service's clock was set: does at once what is now due.
  func clockChanged() {
    secondPassed()
    for connection in connections {
      switch connection?.driver {
      case .provider(let provider): provider.clockChanged()
      case .gateway(let provider): provider.clockChanged()
      case .courier, .feedback, .some(.none), nil: break
      }
    }
  }
}

extension HTTP2Provider {
  fileprivate func clockChanged() {
    guard let interception, interception.idleSeconds >= Limits.providerIdleSeconds,
      session.openStreamCount == 0
    else { return }
    end(.idleTimeout)
  }
}

extension BinaryProvider {
  fileprivate func clockChanged() {
    guard let interception, interception.idleSeconds >= Limits.binaryIdleSeconds,
      machine.pendingCount == 0
    else { return }
    machine.finish()
    worker.markDirty(connection)
  }
}

extension Interception {
  /// Applies the interceptor's settings for new connections.
  func adjust(_ session: inout HTTP2ServerSession.Configuration, _ hasRaisedLimit: inout Bool) {
    session.keepsEveryField = true
    let opening = shared.interceptor.opening
    if let streams = opening.maxConcurrentStreams {
      session.initialStreamLimit = max(0, streams)
      hasRaisedLimit = true
    }
    if let bytes = opening.initialWindowBytes {
      // RFC 9113, section 6.5.2: at most 2^31-1.
      session.initialWindowBytes = min(max(0, bytes), Int(Int32.max))
    }
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
      .topicNotOfKey, .topicNotOfCertificate:
      true
    default: false
    }
  }
}
