package import ApusTLS
import Glibc

/// What stopped a raw client that a test drives.
package enum RawFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// A call of the system failed with this `errno`.
  case system(String, Int32)
  /// The deadline came first. Says what was waited for.
  case timedOut(String)
  /// The connection ended before what was waited for. Says what that was.
  case ended(RawEnd, awaiting: String)
  /// The peer sent what its protocol does not allow here.
  case unexpected(String)

  package var description: String {
    switch self {
    case .system(let call, let code): "\(call): \(unsafe String(cString: strerror(code)))"
    case .timedOut(let what): "the deadline came before \(what)"
    case .ended(let end, let what): "the connection ended (\(end)) before \(what)"
    case .unexpected(let what): what
    }
  }
}

/// How the other side ended a connection.
package enum RawEnd: Sendable, Equatable {
  /// close_notify: nothing is missing.
  case closeNotify
  /// FIN, under TLS without close_notify before it.
  case endOfStream
  /// RST.
  case reset
  /// A fatal TLS alert, or what else made this side's TLS give up.
  case failed(TLSError)
}
