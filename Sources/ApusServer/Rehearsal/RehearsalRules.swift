import ApusCore
import ApusHTTP2
import ApusModel
import ApusTLS
import ApusTrust

// What holds for both interfaces.

extension Connection {
  /// Who listens in on the connection; nil in a real service.
  func rehearse(_ interface: ProviderInterface) -> ProviderRehearsal? {
    guard let desk = worker.rehearsal else { return nil }
    return ProviderRehearsal(desk, self, interface, credential: certificateText)
  }

  private var certificateText: String? {
    guard let der = tls.peerCertificateDER else { return nil }
    guard let certificate = try? Certificate(der: der.span) else { return "certificate" }
    let subject = certificate.subject
    return "certificate for \(subject.userID ?? subject.commonName ?? certificate.serial)"
  }

  /// Somebody has said whose device an unknown token is.
  func adopted(_ token: DeviceToken?, _ key: UInt32) {
    switch driver {
    case .provider(let provider): provider.adopted(token, key)
    case .gateway(let provider): provider.adopted(token, key)
    case .courier, .feedback, .none: break
    }
  }

  /// What a request had to wait for has happened.
  func prepared(_ key: UInt32) {
    switch driver {
    case .provider(let provider): provider.prepared(key)
    case .gateway(let provider): provider.prepared(key)
    case .courier, .feedback, .none: break
    }
  }
}

// The rules about quiet connections go by the monotonic clock, which nobody sets. Where the service's own was moved,
// they are held against that too.

extension Worker {
  /// The clock was set: what is due by now happens now.
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
    guard let rehearsal, rehearsal.idleSeconds >= Limits.providerIdleSeconds,
      session.openStreamCount == 0
    else { return }
    end(.idleTimeout)
  }
}

extension BinaryProvider {
  fileprivate func clockChanged() {
    guard let rehearsal, rehearsal.idleSeconds >= Limits.binaryIdleSeconds,
      machine.pendingCount == 0
    else { return }
    machine.finish()
    worker.markDirty(connection)
  }
}

extension ProviderRehearsal {
  /// How the connection is opened.
  func adjust(_ session: inout HTTP2ServerSession.Configuration, _ hasRaisedLimit: inout Bool) {
    session.keepsEveryField = true
    let opening = desk.rehearsal.opening
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
  /// Whether the interface has a word for it.
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
  /// Whether a stand-in that takes any credential lets it pass.
  ///
  /// The age of a token is held to: it says nothing of who the sender is, and an hour's rule is to be tried out.
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
