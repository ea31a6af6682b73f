package import ApusLoop
import ApusModel
package import ApusTLS
package import ApusTrust
import ApusWire
import Glibc

/// Why a device has no connection any more.
package enum DeviceDisconnection: Error, Sendable {
  /// The device wanted it so.
  case stopped
  /// The service has no address, or none that takes connections. The last address's reason.
  case unreachable(SocketError)
  /// TCP or TLS took longer than `Limits.handshakeSeconds`, or the service took no bytes for
  /// `Limits.writeStallSeconds`.
  case timedOut
  case tls(TLSError)
  /// The service does not speak the courier protocol in the device's dialect (ALPN).
  case otherProtocol
  /// The device's key cannot sign a nonce.
  case proof(TrustFault)
  case refused(CourierRefusal)
  case fault(CourierClientFault)
  /// The service said why it closes.
  case goodbye(reason: String)
  /// The service closed without a word.
  case closed
  /// The system's `errno`.
  case transport(Int32)
}

extension DeviceDisconnection {
  /// What the end of an attempt says of the session that was offered in it.
  enum SessionBlame {
    case none
    /// Nothing was said: a service that is asked by thousands at once answers some of them too late.
    case possible
    case likely
  }

  var sessionBlame: SessionBlame {
    switch self {
    case .stopped, .unreachable, .goodbye: .none
    // Truncated: it ended without an alert too.
    case .timedOut, .transport, .closed, .tls(.truncated): .possible
    case .tls, .otherProtocol, .proof, .refused, .fault: .likely
    }
  }
}

/// Whether a session is offered again after an attempt that led to no connection.
///
/// One that nothing was said about saves the service most of the work the next time, and just then that counts. But not
/// for ever: where it is the session that the service fails at, a device that kept it would be locked out. That whoever
/// watches may see a ticket twice (RFC 8446, C.4) tells him less than the device's address does.
struct SessionPatience {
  /// Attempts in a row that ended without a word.
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
    case .timedOut: "the service does not answer"
    case .tls(.alertReceived(let code)): Self.text(alert: code)
    case .tls(.certificateRejected(let reason)): Self.text(rejected: reason)
    case .tls(let error): error.description
    case .otherProtocol: "the service does not speak the courier protocol; is it the right port?"
    case .proof(let fault): "the device cannot prove itself: \(fault)"
    case .refused(let refusal): Self.text(refused: refusal)
    case .fault(let fault): fault.description
    case .goodbye(let reason): "the service closed: \(reason)"
    case .closed: "the service closed"
    case .transport(ECONNRESET), .transport(EPIPE): "the connection was cut"
    case .transport(ETIMEDOUT): "the connection was lost"
    case .transport(let code): "the connection broke (error \(code))"
    }
  }

  private static func text(refused refusal: CourierRefusal) -> String {
    let text = "the service refused the device (status \(refusal.status.rawValue))"
    if refusal.badNonceServerMilliseconds != nil {
      return text
        + ": the clock of this device is wrong by more than \(Limits.courierNonceSeconds) s, "
        + "compared with the service's: set it"
    }
    return refusal.explanation.isEmpty ? text : "\(text): \(refusal.explanation)"
  }

  /// What an alert of the service says about the device's certificate. RFC 8446, section 6.2.
  private static func text(alert code: UInt8) -> String {
    let fault: String? =
      switch code {
      case 44: "is revoked"
      case 45: "has expired"
      case 48: "is of an authority that the service does not trust, or no longer"
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
