/// How an action for one notification ended.
enum ActionResult: Sendable, Equatable {
  /// With a readable result.
  case done(String)
  /// It is to be tried again later, with the reason.
  case again(String)
  /// It is not tried again, with the reason.
  case failed(String)

  /// The exit code with which a command asks to be run again: EX_TEMPFAIL of sysexits.h.
  static let againCode: Int32 = 75

  init(exitCode: Int32) {
    switch exitCode {
    case 0: self = .done("exit code 0")
    case Self.againCode: self = .again("exit code \(exitCode)")
    default: self = .failed("exit code \(exitCode)")
    }
  }

  /// Milliseconds to wait before the next attempt: 1 s, then twice as long each time, at most 5 minutes.
  static func waitMilliseconds(attempts: Int) -> UInt64 {
    min(1000 << UInt64(min(max(attempts - 1, 0), 20)), 300_000)
  }
}
