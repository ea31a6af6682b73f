/// Bounds how many log lines of one kind are written, and counts the suppressed ones.
///
/// Anybody on the network can cause some lines, and a failing disk others. Each kind may write a number of lines per
/// window of time; further ones are suppressed, and one line reports their number. A window begins with the first line
/// after the last window, so a rare kind is never suppressed. The caller passes the time, in milliseconds of a
/// monotonic clock.
package struct LogLimiter: Sendable {
  /// What to do with a line.
  package enum Verdict: Sendable, Hashable {
    /// Write it, preceded by the number suppressed in the previous window unless that is 0.
    case write(suppressedBefore: Int)
    case suppress
  }

  /// Lines of a kind that were suppressed in a finished window.
  package struct Suppressed: Sendable, Hashable {
    package var kind: Int
    package var lineCount: Int

    package init(kind: Int, lineCount: Int) {
      self.kind = kind
      self.lineCount = lineCount
    }
  }

  private struct Window {
    var endMilliseconds: UInt64 = 0
    var written = 0
    var suppressed = 0
    var suppressedTotal: UInt64 = 0
  }

  private var windows: [Window]
  private let lines: Int
  private let windowMilliseconds: UInt64

  /// - Parameter kinds: The number of kinds; each kind is a number below it.
  package init(
    kinds: Int, lines: Int = Limits.logLinesPerWindow,
    windowSeconds: Int = Limits.logWindowSeconds
  ) {
    windows = Array(repeating: Window(), count: kinds)
    self.lines = lines
    windowMilliseconds = UInt64(windowSeconds) * 1000
  }

  /// Decides on a line of that kind that is about to be written.
  package mutating func admit(_ kind: Int, atMilliseconds now: UInt64) -> Verdict {
    var suppressedBefore = 0
    if now >= windows[kind].endMilliseconds {
      suppressedBefore = windows[kind].suppressed
      windows[kind].written = 0
      windows[kind].suppressed = 0
      windows[kind].endMilliseconds = now + windowMilliseconds
    }
    guard windows[kind].written < lines else {
      windows[kind].suppressed += 1
      windows[kind].suppressedTotal += 1
      return .suppress
    }
    windows[kind].written += 1
    return .write(suppressedBefore: suppressedBefore)
  }

  /// Removes and returns what was suppressed in finished windows and has not been reported yet.
  package mutating func takeSuppressed(atMilliseconds now: UInt64) -> [Suppressed] {
    var taken: [Suppressed] = []
    for kind in windows.indices
    where windows[kind].suppressed > 0 && now >= windows[kind].endMilliseconds {
      taken.append(Suppressed(kind: kind, lineCount: windows[kind].suppressed))
      windows[kind].suppressed = 0
    }
    return taken
  }

  /// All lines of that kind suppressed so far.
  package func suppressedTotal(_ kind: Int) -> UInt64 { windows[kind].suppressedTotal }
}
