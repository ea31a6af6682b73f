package import ApusModel

/// The options of `apus log`.
package enum LogOptions {
  package static let id = search(
    "--id", .notificationID, "The notification with this \(HeaderName.apnsID.text).")
  package static let uniqueID = search(
    "--unique-id", .notificationID, "The notification with this \(HeaderName.apnsUniqueID.text).")
  package static let token = search(
    "--token", .deviceToken, "Notifications to this device token.")
  package static let topic = search("--topic", .topic, "Notifications for this topic.")
  package static let device = search(
    "--device", .text("DEVICE"),
    "Notifications to the device with this id or name. With this option or --token, refused requests are shown as well."
  )
  package static let state = Option(
    "--state", .deliveryStates, in: [Verb.log], group: .search, scope: .flagOnly, repeats: true,
    help: "Lines with this state: a label, or its first words. May be repeated.")
  package static let since = search("--since", .moment, "Lines from this time on.")
  package static let until = search("--until", .moment, "Lines before this time.")
  package static let limit = Option(
    "--limit", .integer("N", 1...100_000_000), in: [Verb.log], group: .search, scope: .flagOnly,
    default: "1000", help: "Show at most the newest N lines.")
  package static let follow = search(
    "--follow", .flag, "Keep printing new lines until interrupted.")
  package static let refused = search(
    "--refused", .flag,
    "Show only notifications rejected as unauthorized or for a known device, each with its explanation."
  )
  package static let counts = search(
    "--counts", .flag, "Print the counters of each topic instead of lines.")
  package static let by = Option(
    "--by",
    .choice(
      "WHAT",
      [
        ("topic", CountsBy.topic), ("push-type", .pushType), ("priority", .priority),
        ("reason", .reason),
      ]), in: [Verb.log], group: .search, scope: .flagOnly, default: "topic",
    help: "How --counts groups the counters: by topic, push-type, priority, or rejection reason.")

  package static let export = search(
    "--export", .flag,
    "Print what was broadcast on channels as CSV: a line for each day, channel and app.")

  private static func search<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, _ help: String
  ) -> Option<Value> {
    Option(flag, syntax, in: [Verb.log], group: .search, scope: .flagOnly, help: help)
  }
}

/// How counters are grouped.
package enum CountsBy: Sendable { case topic, pushType, priority, reason }

/// A point in time, relative to now or absolute.
package enum Moment: Sendable, Hashable {
  /// Seconds before now.
  case ago(Int64)
  /// Unix milliseconds.
  case at(Int64)

  package func milliseconds(nowMilliseconds: Int64) -> Int64 {
    switch self {
    case .ago(let seconds): nowMilliseconds - seconds * 1000
    case .at(let milliseconds): milliseconds
    }
  }
}

extension ValueSyntax where Value == Moment {
  static var moment: ValueSyntax {
    ValueSyntax("TIME") { text throws(ValueProblem) in
      if !text.isEmpty, let seconds = duration(text), seconds <= 1 << 40 {
        return .ago(Int64(seconds))
      }
      guard let milliseconds = DateTime.milliseconds(text) else {
        throw ValueProblem(
          "is neither a span before now such as 12h, nor a time such as 2026-01-31T12:00:00Z")
      }
      return .at(milliseconds)
    }
  }
}

extension ValueSyntax where Value == [DeliveryState] {
  /// A label, or the words that one or several labels begin with; case and punctuation do not matter.
  static var deliveryStates: ValueSyntax {
    let words = DeliveryState.allCases.map { Self.words($0.label.description) }
    let completions = words.map { $0.joined(separator: "-") }
    return ValueSyntax("LABEL", completion: .words(completions)) { text throws(ValueProblem) in
      let wanted = Self.words(text)
      let states = DeliveryState.allCases.filter {
        words[Int($0.rawValue)].starts(with: wanted)
      }
      // "Delivered to Device" is one label and the beginning of another.
      if let exact = states.first(where: { words[Int($0.rawValue)] == wanted }) { return [exact] }
      guard !wanted.isEmpty, !states.isEmpty else {
        let labels = DeliveryState.allCases.map { "\"\($0.label)\"" }
        throw ValueProblem("is not a label; the labels are \(labels.joined(separator: ", "))")
      }
      return states
    }
  }

  private static func words(_ text: String) -> [String] {
    text.lowercased().split { !$0.isASCII || !$0.isLetter }.map(String.init)
  }
}

extension ValueSyntax where Value == LedgerMode {
  static var ledgerMode: ValueSyntax {
    ValueSyntax("MODE", completion: .words(["all", "off", "1/10", "1/100"])) {
      text throws(ValueProblem) in
      switch text {
      case "all": return .all
      case "off": return .off
      default:
        guard text.hasPrefix("1/"), text.dropFirst(2).allSatisfy(\.isNumber),
          let number = UInt32(text.dropFirst(2)), number > 0
        else { throw ValueProblem("is neither all, nor off, nor a fraction such as 1/100") }
        return number == 1 ? .all : .oneIn(number)
      }
    }
  }
}

/// Times in the format of RFC 3339.
package enum DateTime {
  /// The day of a time in Unix milliseconds, such as `2026-01-31`, in UTC.
  static func day(_ milliseconds: Int64) -> String {
    let days = milliseconds / 86_400_000 - (milliseconds % 86_400_000 < 0 ? 1 : 0)
    let date = CivilDate(daysSince1970: days)
    func text(_ number: Int64, _ count: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }
    return "\(text(date.year, 4))-\(text(date.month, 2))-\(text(date.day, 2))"
  }

  /// Unix milliseconds of a time such as `2026-01-31T12:00:00Z`, with an optional fraction of a second and any offset;
  /// nil for anything else.
  package static func milliseconds(_ text: String) -> Int64? {
    let bytes = Array(text.utf8)
    func number(_ range: Range<Int>) -> Int64? {
      guard range.upperBound <= bytes.count else { return nil }
      var value: Int64 = 0
      for byte in bytes[range] {
        guard 0x30...0x39 ~= byte else { return nil }
        value = value * 10 + Int64(byte - 0x30)
      }
      return value
    }
    func isAt(_ index: Int, _ character: Character) -> Bool {
      index < bytes.count && bytes[index] == character.asciiValue
    }
    guard let year = number(0..<4), isAt(4, "-"), let month = number(5..<7), isAt(7, "-"),
      let day = number(8..<10), isAt(10, "T") || isAt(10, "t") || isAt(10, " "),
      let hour = number(11..<13), isAt(13, ":"), let minute = number(14..<16), isAt(16, ":"),
      let second = number(17..<19), 1...12 ~= month, 1...days(month, year) ~= day, hour < 24,
      minute < 60, second <= 60
    else { return nil }
    var index = 19
    var fraction: Int64 = 0
    if isAt(index, ".") {
      index += 1
      let first = index
      var unit: Int64 = 100
      while let digit = number(index..<index + 1) {
        fraction += digit * unit
        unit /= 10
        index += 1
      }
      guard index > first else { return nil }
    }
    guard let offset = offsetSeconds(bytes[index...]) else { return nil }
    let days = CivilDate(year: year, month: month, day: day).daysSince1970
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
    return seconds * 1000 + fraction
  }

  private static func offsetSeconds(_ text: ArraySlice<UInt8>) -> Int64? {
    let text = String(decoding: text, as: UTF8.self)
    if text == "Z" || text == "z" { return 0 }
    let parts = text.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
    guard let sign = text.first, sign == "+" || sign == "-", parts.count == 2,
      parts.allSatisfy({ $0.utf8.count == 2 && $0.allSatisfy(\.isNumber) }),
      let hours = Int64(parts[0]), let minutes = Int64(parts[1]), hours < 24, minutes < 60
    else { return nil }
    return (sign == "-" ? -1 : 1) * (hours * 3600 + minutes * 60)
  }

  private static func days(_ month: Int64, _ year: Int64) -> Int64 {
    switch month {
    case 4, 6, 9, 11: 30
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    default: 31
    }
  }
}
