import ApusLoop
import ApusModel
import Glibc

/// Structured logs on standard error, as text or JSON.
///
/// A line has a level, a short event and named values. Only the first digits of device tokens are logged; payloads and
/// provider tokens are never logged.
package struct Log: Sendable {
  package enum Level: UInt8, Sendable, Comparable, CaseIterable {
    case debug, info, notice, warning, error

    package static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }

    package var name: String {
      switch self {
      case .debug: "debug"
      case .info: "info"
      case .notice: "notice"
      case .warning: "warning"
      case .error: "error"
      }
    }

    /// As syslog(3) numbers them.
    var priority: Int {
      switch self {
      case .debug: 7
      case .info: 6
      case .notice: 5
      case .warning: 4
      case .error: 3
      }
    }
  }

  package enum Format: Sendable {
    case text
    case json
  }

  /// A value with its name.
  package struct Field: Sendable {
    enum Value: Sendable {
      case text(String)
      case number(Int64)
      case truth(Bool)
    }

    var name: StaticString
    var value: Value

    package static func text(_ name: StaticString, _ value: String) -> Field {
      Field(name: name, value: .text(value))
    }

    package static func number(_ name: StaticString, _ value: some BinaryInteger) -> Field {
      Field(name: name, value: .number(Int64(clamping: value)))
    }

    package static func truth(_ name: StaticString, _ value: Bool) -> Field {
      Field(name: name, value: .truth(value))
    }
  }

  package var minimumLevel: Level
  package var format: Format
  /// Whether each line begins with its priority, such as "<4>", which the journal removes (sd-daemon(3)).
  package var hasPriorities = false
  /// Receives the lines, without time and level, instead of standard error: for simulations, which have their own
  /// clock.
  package var sink: (@Sendable (String) -> Void)?
  /// Shared by all copies.
  let limitedLines = LimitedLines()

  package init(
    minimumLevel: Level = .info, format: Format = .text, sink: (@Sendable (String) -> Void)? = nil
  ) {
    self.minimumLevel = minimumLevel
    self.format = format
    self.sink = sink
  }

  /// Whether standard error is the journal's, according to `JOURNAL_STREAM` (systemd.exec(5)): its device and inode.
  package static func isJournal(_ environment: [String: String]) -> Bool {
    guard let stream = environment["JOURNAL_STREAM"] else { return false }
    var status = stat()
    guard unsafe fstat(STDERR_FILENO, &status) == 0 else { return false }
    return stream == "\(status.st_dev):\(status.st_ino)"
  }

  /// Whether a line of that level would be written: check it before building costly values.
  package func writes(_ level: Level) -> Bool { level >= minimumLevel }

  /// Writes one line in one system call, so that lines of several threads do not mix.
  package func callAsFunction(_ level: Level, _ event: StaticString, _ fields: Field...) {
    write(level, event, fields)
  }

  /// The same with fields that are made only if the line is written.
  package func lazily(_ level: Level, _ event: StaticString, _ fields: () -> [Field]) {
    guard writes(level) else { return }
    write(level, event, fields())
  }

  func write(_ level: Level, _ event: StaticString, _ fields: [Field]) {
    guard writes(level) else { return }
    if let sink { return sink(text(event, fields)) }
    let milliseconds = EventLoop.wallClockMilliseconds()
    let line =
      switch format {
      case .text: textLine(level, event, fields, milliseconds)
      case .json: jsonLine(level, event, fields, milliseconds)
      }
    let bytes = Array((hasPriorities ? "<\(level.priority)>\(line)\n" : "\(line)\n").utf8)
    unsafe bytes.withUnsafeBytes { buffer in
      _ = unsafe Glibc.write(STDERR_FILENO, buffer.baseAddress, buffer.count)
    }
  }

  private func textLine(
    _ level: Level, _ event: StaticString, _ fields: [Field], _ milliseconds: Int64
  ) -> String {
    "\(Self.timestamp(milliseconds)) \(level.name.padded(to: 7)) \(text(event, fields))"
  }

  private func text(_ event: StaticString, _ fields: [Field]) -> String {
    var line = event.description
    for field in fields {
      line += " \(field.name.description)="
      switch field.value {
      case .text(let text): line += text.needsQuotes ? jsonQuoted(text) : text
      case .number(let number): line += String(number)
      case .truth(let truth): line += truth ? "true" : "false"
      }
    }
    return line
  }

  private func jsonLine(
    _ level: Level, _ event: StaticString, _ fields: [Field], _ milliseconds: Int64
  ) -> String {
    "{\"time\":\"\(Self.timestamp(milliseconds))\",\"level\":\"\(level.name)\""
      + ",\"event\":\(jsonQuoted(event.description))\(Self.jsonMembers(fields))}"
  }

  /// The fields as members of a JSON object, each preceded by a comma.
  package static func jsonMembers(_ fields: [Field]) -> String {
    var members = ""
    for field in fields {
      members += ",\"\(field.name.description)\":"
      switch field.value {
      case .text(let text): members += jsonQuoted(text)
      case .number(let number): members += String(number)
      case .truth(let truth): members += truth ? "true" : "false"
      }
    }
    return members
  }

  /// RFC 3339 in UTC with milliseconds.
  package static func timestamp(_ milliseconds: Int64) -> String {
    let (days, rest) = milliseconds.floorDivided(by: 86_400_000)
    let date = CivilDate(daysSince1970: days)
    let (month, day) = (date.month.twoDigits, date.day.twoDigits)
    let hour = rest / 3_600_000
    let minute = rest / 60_000 % 60
    let second = rest / 1000 % 60
    return "\(date.year)-\(month)-\(day)T\(hour.twoDigits):\(minute.twoDigits):"
      + "\(second.twoDigits).\((rest % 1000).digits(3))Z"
  }
}

/// `text` as a JSON string, with its quotation marks.
package func jsonQuoted(_ text: String) -> String {
  var quoted = "\""
  for scalar in text.unicodeScalars {
    switch scalar {
    case "\"": quoted += "\\\""
    case "\\": quoted += "\\\\"
    case "\n": quoted += "\\n"
    case "\r": quoted += "\\r"
    case "\t": quoted += "\\t"
    default:
      if scalar.value < 0x20 || scalar.value == 0x7f {
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      } else {
        quoted.unicodeScalars.append(scalar)
      }
    }
  }
  return quoted + "\""
}

extension String {
  fileprivate var needsQuotes: Bool {
    isEmpty
      || unicodeScalars.contains { $0.value <= 0x20 || $0 == "\"" || $0 == "=" || $0.value == 0x7f }
  }

  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}

extension Int64 {
  fileprivate var twoDigits: String { digits(2) }

  fileprivate func digits(_ width: Int) -> String {
    let text = String(self)
    return String(repeating: "0", count: Swift.max(0, width - text.count)) + text
  }

  fileprivate func floorDivided(by divisor: Int64) -> (Int64, Int64) {
    let remainder = (self % divisor + divisor) % divisor
    return ((self - remainder) / divisor, remainder)
  }
}
