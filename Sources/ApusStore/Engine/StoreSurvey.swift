import ApusModel
import Glibc

/// Surveys a store's logs, one after the other. Changes nothing.
package struct StoreSurvey: Sendable {
  package struct Log: Sendable {
    package enum Outcome: Sendable {
      case read(LogSurvey)
      case unreadable(reason: String)
    }

    package var name: String
    package var outcome: Outcome
    package var survey: LogSurvey? { if case .read(let survey) = outcome { survey } else { nil } }
  }

  package private(set) var logs: [Log] = []

  /// - Parameter path: The store's directory.
  package init(path: String) {
    let names = (try? StoreDirectory(path: path).list()) ?? []
    let numbered = names.compactMap { name in StoreProgress.logNumber(name).map { ($0, name) } }
    var next: UInt64?
    for (_, name) in numbered.sorted(by: { $0.0 < $1.0 }) {
      do throws(SystemFault) {
        let survey = try Self.survey("\(path)/\(name)", nextSequence: next)
        logs.append(Log(name: name, outcome: .read(survey)))
        next = survey.nextSequence ?? next
      } catch {
        logs.append(Log(name: name, outcome: .unreadable(reason: error.text)))
        // Its content is unknown.
        next = nil
      }
    }
  }

  private static func survey(
    _ path: String, nextSequence: UInt64?
  ) throws(SystemFault) -> LogSurvey {
    // Nonblocking, because anything might have such a name.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw SystemFault() }
    defer { close(file) }
    var status = stat()
    guard unsafe fstat(file, &status) == 0 else { throw SystemFault() }
    guard status.st_mode & S_IFMT == S_IFREG else { throw SystemFault(code: EINVAL) }
    var survey = LogSurvey(nextSequence: nextSequence)
    var rest = Int(status.st_size)
    var block = [UInt8](repeating: 0, count: LogSurvey.blockBytes)
    while rest > 0 {
      let count = try read(file, min(rest, block.count), into: &block)
      rest -= count
      survey.read(block.span.extracting(0..<count), isLast: rest == 0)
    }
    return survey
  }

  /// Reads `wanted` bytes.
  private static func read(
    _ file: Int32, _ wanted: Int, into block: inout [UInt8]
  ) throws(SystemFault) -> Int {
    var count = 0
    while count < wanted {
      let got = unsafe block.withUnsafeMutableBytes { bytes in
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[count..<wanted])
        return unsafe Glibc.read(file, rest.baseAddress, rest.count)
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw SystemFault(code: got == 0 ? EIO : errno) }
      count += got
    }
    return count
  }

  private struct SystemFault: Error {
    var code = errno
    var text: String { unsafe String(cString: strerror(code)) }
  }

  /// The findings, a sentence for each log with losses; empty if there are none.
  package var findings: [String] {
    logs.compactMap { log in
      switch log.outcome {
      case .unreadable(let reason): "\(log.name): cannot be read: \(reason)"
      case .read(let survey): survey.isWhole ? nil : "\(log.name): \(Self.finding(survey))"
      }
    }
  }

  private static func finding(_ survey: LogSurvey) -> String {
    var parts: [String] = []
    if survey.missingWrites > 0 {
      parts.append("\(counted(survey.missingWrites, "write")) missing before or in this log")
    }
    for damage in survey.damage {
      let unknown =
        damage.isFollowed ? "an unknown number of writes lost" : "nothing after it can be read"
      let lost = damage.lostWrites.map { "\(counted($0, "write")) lost" } ?? unknown
      parts.append("damaged at byte \(damage.offset), \(lost)")
    }
    let others = survey.damageCount - survey.damage.count
    if others > 0 { parts.append("damaged in \(others) more places") }
    let (before, after) = (
      counted(survey.writesBefore, "write"), counted(survey.writesAfter, "write")
    )
    parts.append("\(before) before that and \(after) after it are readable")
    return parts.joined(separator: "; ")
  }
}
