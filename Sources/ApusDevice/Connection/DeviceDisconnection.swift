package import ApusLoop
import ApusModel
package import ApusTLS
package import ApusTrust
import ApusWire
import Glibc

/// Why a device is disconnected.
package enum DeviceDisconnection: Error, Sendable {
  /// The device was stopped.
  case stopped
  /// The service has no address, or none that accepts connections; with the reason of the last address.
  case unreachable(SocketError)
  /// TCP or TLS took longer than `Limits.handshakeSeconds`, or the service read no bytes for
  /// `Limits.writeStallSeconds`.
  case timedOut
  case tls(TLSError)
  /// The service does not support the courier protocol in the device's dialect (ALPN).
  case otherProtocol
  /// The device's key cannot sign a nonce.
  case proof(TrustFault)
  case refused(CourierRefusal)
  case fault(CourierClientFault)
  /// The service gave a reason for closing.
  case goodbye(reason: String)
  /// The service closed without a reason.
  case closed
  /// The system's `errno`.
  case transport(Int32)
}

extension DeviceDisconnection {
  /// Whether the offered TLS session may have caused the failed attempt.
  enum SessionBlame {
    case none
    /// No reason was given: a service that thousands contact at once answers some of them too late.
    case possible
    case likely
  }

  var sessionBlame: SessionBlame {
    switch self {
    case .stopped, .unreachable, .goodbye: .none
    // Truncated also ended without an alert.
    case .timedOut, .transport, .closed, .tls(.truncated): .possible
    case .tls, .otherProtocol, .proof, .refused, .fault: .likely
    }
  }
}

extension DeviceDisconnection {
  /// Whether it makes no sense to try again: the device is retired or needs a new certificate.
  ///
  /// The service explains a refusal only to a device that has proved who it is. An alert counts only after the
  /// handshake, since TLS 1.2 authenticates none before. An expired certificate does not count: the clock that judged
  /// it may be wrong.
  ///
  /// - Parameter isTrusted: Whether the service's handshake was complete.
  func isFinal(afterHandshake isTrusted: Bool) -> Bool {
    switch self {
    case .refused(let refusal): !refusal.explanation.isEmpty
    case .tls(.alertReceived(Self.certificateRevoked)), .tls(.alertReceived(Self.unknownAuthority)):
      isTrusted
    default: false
    }
  }

  /// RFC 8446, section 6.2.
  private static let certificateRevoked: UInt8 = 44
  private static let unknownAuthority: UInt8 = 48
}

extension DeviceDisconnection {
  /// Whether another address of the service may be better. What the service says about the device, it says at each.
  var concernsAddress: Bool {
    switch self {
    case .unreachable, .timedOut, .otherProtocol, .fault, .closed, .transport: true
    case .tls(.alertReceived(let code)): !Self.deviceAlerts.contains(code)
    case .tls: true
    case .stopped, .proof, .refused, .goodbye: false
    }
  }

  /// RFC 8446, section 6.2: alerts about a certificate, access_denied, and certificate_required.
  private static let deviceAlerts: Set<UInt8> = [42, 43, 44, 45, 46, 48, 49, 116]
}

/// Whether a TLS session is offered again after a failed attempt.
///
/// If the service gave no reason, keeping the session saves it most of the work next time, which matters just then. But
/// not without limit: if the service fails because of the session, a device that kept it would be locked out. An
/// observer may see a ticket twice (RFC 8446, C.4), which reveals less than the device's address does.
struct SessionPatience {
  /// Consecutive attempts that ended without a reason.
  private var silent = 0

  static let silentAttempts = 16

  mutating func connected() { silent = 0 }

  /// - Returns: Whether the session is kept.
  mutating func failed(_ reason: DeviceDisconnection) -> Bool {
    switch reason.sessionBlame {
    case .none: return true
    case .likely: silent = Self.silentAttempts
    case .possible: silent += 1
    }
    guard silent >= Self.silentAttempts else { return true }
    silent = 0
    return false
  }
}

extension DeviceDisconnection: CustomStringConvertible {
  package var description: String {
    switch self {
    case .stopped: "stopped"
    case .unreachable(let error): error.description
    case .timedOut: "the service does not respond"
    case .tls(.alertReceived(let code)): Self.text(alert: code)
    case .tls(.certificateRejected(let reason)): Self.text(rejected: reason)
    case .tls(let error): error.description
    case .otherProtocol: "the service does not support the courier protocol; check the port"
    case .proof(let fault): "the device cannot sign its proof: \(fault)"
    case .refused(let refusal): Self.text(refused: refusal)
    case .fault(let fault): fault.description
    case .goodbye(let reason): "the service closed: \(reason)"
    case .closed: "the service closed"
    case .transport(ECONNRESET), .transport(EPIPE): "the connection was reset"
    case .transport(ETIMEDOUT): "the connection was lost"
    case .transport(let code): "the connection broke (error \(code))"
    }
  }

  private static func text(refused refusal: CourierRefusal) -> String {
    let text = "the service refused the device (status \(refusal.status.rawValue))"
    if refusal.badNonceServerMilliseconds != nil {
      return text
        + ": the clock of this device differs by more than \(Limits.courierNonceSeconds) s "
        + "from the service's: correct it"
    }
    return refusal.explanation.isEmpty ? text : "\(text): \(refusal.explanation)"
  }

  /// An alert of the service about the device's certificate. RFC 8446, section 6.2.
  private static func text(alert code: UInt8) -> String {
    let fault: String? =
      switch code {
      case 44: "is revoked"
      case 45: "has expired"
      case 48: "comes from an authority that the service does not trust"
      default: nil
      }
    guard let fault else { return TLSError.alertReceived(code).description }
    return
      "the device's certificate \(fault) (TLS alert \(code)): the device needs a new certificate, "
      + "by enrolment or from the operator"
  }

  /// The device's own clock decides whether the service's certificate is valid.
  private static func text(rejected reason: String) -> String {
    let text = TLSError.certificateRejected(reason).description
    guard reason.contains("not yet valid") || reason.contains("expired") else { return text }
    return text + "; check the clock of this device first"
  }
}
