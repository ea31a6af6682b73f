/// Bounds how many log lines of one kind are written, and counts those that are not.
///
/// Anybody on the network can cause some lines, and a failing disk others. Each kind may have a number of lines in a
/// window of time; the others are suppressed, and one line tells how many they were. A window begins with the first
/// line after the last window, so a kind that is rare is never suppressed. Time is given, in milliseconds of a clock
/// that nobody sets.
package struct LogLimiter: Sendable {
  /// What to do with a line.
  package enum Verdict: Sendable, Hashable {
    /// Write it, and first say how many were suppressed in the window before, unless that is 0.
    case write(suppressedBefore: Int)
    case suppress
  }

  /// Lines of a kind that were suppressed in a window that is over.
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

  /// - Parameter kinds: How many kinds there are; each is a number below that.
  package init(
    kinds: Int, lines: Int = Limits.logLinesPerWindow,
    windowSeconds: Int = Limits.logWindowSeconds
  ) {
    windows = Array(repeating: Window(), count: kinds)
    self.lines = lines
    windowMilliseconds = UInt64(windowSeconds) * 1000
  }

  /// A line of that kind is about to be written.
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

  /// What was suppressed in windows that are over and was not told yet.
  package mutating func takeSuppressed(atMilliseconds now: UInt64) -> [Suppressed] {
    var taken: [Suppressed] = []
    for kind in windows.indices
    where windows[kind].suppressed > 0 && now >= windows[kind].endMilliseconds {
      taken.append(Suppressed(kind: kind, lineCount: windows[kind].suppressed))
      windows[kind].suppressed = 0
    }
    return taken
  }

  /// Lines of that kind that were ever suppressed.
  package func suppressedTotal(_ kind: Int) -> UInt64 { windows[kind].suppressedTotal }
}
