package import ApusTLS
import Glibc

/// Why an operation of a raw client failed.
package enum RawFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// A system call failed with this `errno`.
  case system(String, Int32)
  /// The deadline passed while waiting for this.
  case timedOut(String)
  /// The connection ended while waiting for this.
  case ended(RawEnd, awaiting: String)
  /// The peer violated its protocol.
  case unexpected(String)

  package var description: String {
    switch self {
    case .system(let call, let code): "\(call): \(unsafe String(cString: strerror(code)))"
    case .timedOut(let what): "the deadline passed before \(what)"
    case .ended(let end, let what): "the connection ended (\(end)) before \(what)"
    case .unexpected(let what): what
    }
  }
}

/// How the peer ended a connection.
package enum RawEnd: Sendable, Equatable {
  /// close_notify: nothing is missing.
  case closeNotify
  /// FIN; under TLS, without close_notify.
  case endOfStream
  /// RST.
  case reset
  /// A fatal TLS alert, or another TLS failure on this side.
  case failed(TLSError)
}
