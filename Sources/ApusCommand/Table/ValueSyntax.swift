import ApusModel
import ApusWire

/// What is wrong with a value, worded to follow the value in a sentence.
package struct ValueProblem: Error, Sendable, Hashable {
  package var text: String
  package init(_ text: String) { self.text = text }
}

/// The syntax of a value: its placeholder in help, its parser, its shell completion.
package struct ValueSyntax<Value: Sendable>: Sendable {
  /// Nil for a switch.
  var placeholder: String?
  var completion: Completion
  var read: @Sendable (String) throws(ValueProblem) -> Value

  init(
    _ placeholder: String?, completion: Completion = .nothing,
    read: @escaping @Sendable (String) throws(ValueProblem) -> Value
  ) {
    self.placeholder = placeholder
    self.completion = completion
    self.read = read
  }
}

extension ValueSyntax where Value == Bool {
  /// A switch: on if the flag is given; `yes` or `no` (or `true`, `on`, `1` and so on) in environment and file.
  static var flag: ValueSyntax {
    ValueSyntax(nil) { text throws(ValueProblem) in
      switch text.lowercased() {
      case "yes", "true", "on", "1": true
      case "no", "false", "off", "0": false
      default: throw ValueProblem("is neither yes nor no")
      }
    }
  }
}

extension ValueSyntax where Value == LogLevel {
  static var logLevel: ValueSyntax {
    .choice(
      "LEVEL",
      [
        ("debug", .debug), ("info", .info), ("notice", .notice), ("warning", .warning),
        ("error", .error),
      ])
  }
}

extension ValueSyntax where Value == String {
  static func text(_ placeholder: String) -> ValueSyntax {
    ValueSyntax(placeholder) { text throws(ValueProblem) in
      guard !text.isEmpty else { throw ValueProblem("is empty") }
      return text
    }
  }

  /// A text that may be empty, such as the text of an alert.
  static func anyText(_ placeholder: String) -> ValueSyntax {
    ValueSyntax(placeholder) { text throws(ValueProblem) in text }
  }

  static func path(_ placeholder: String, completion: Completion) -> ValueSyntax {
    var syntax = ValueSyntax.text(placeholder)
    syntax.completion = completion
    return syntax
  }

  static var file: ValueSyntax { .path("FILE", completion: .file) }
  static var directory: ValueSyntax { .path("DIR", completion: .directory) }

  /// The bundle id of an app, with the suffix that some push types append.
  static var topic: ValueSyntax {
    ValueSyntax("TOPIC") { text throws(ValueProblem) in
      guard !text.isEmpty, text.utf8.count <= Limits.topicBytes else {
        throw ValueProblem("is not a topic of 1 to \(Limits.topicBytes) bytes")
      }
      let isGood = text.utf8.allSatisfy { 0x21...0x7e ~= $0 && $0 != UInt8(ascii: ",") }
      guard isGood else { throw ValueProblem("is not a topic such as com.example.app") }
      return text
    }
  }

  /// An authority's common name: the 64 characters of RFC 5280, appendix A.1, without those that number its successor.
  static var authorityName: ValueSyntax { subjectText(bytes: 60) }

  /// May be longer than RFC 5280 allows, because it usually ends with a topic.
  static var commonName: ValueSyntax { subjectText(bytes: Limits.topicBytes + 40) }

  private static func subjectText(bytes count: Int) -> ValueSyntax {
    ValueSyntax("TEXT") { text throws(ValueProblem) in
      guard 1...count ~= text.utf8.count, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
      else { throw ValueProblem("is not a name of 1 to \(count) bytes without control characters") }
      return text
    }
  }

  static var keyID: ValueSyntax { shortID(of: "key") }
  static var teamID: ValueSyntax { shortID(of: "team") }

  private static func shortID(of kind: String) -> ValueSyntax {
    ValueSyntax("ID") { text throws(ValueProblem) in
      let isGood =
        text.utf8.count == 10 && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
      guard isGood else { throw ValueProblem("is not a \(kind) id (ten letters and digits)") }
      return text
    }
  }

  /// A device token as hexadecimal digits, returned in lower case.
  static var deviceToken: ValueSyntax {
    ValueSyntax("HEX") { text throws(ValueProblem) in
      guard !text.isEmpty, text.utf8.count % 2 == 0, text.allSatisfy(\.isHexDigit),
        text.utf8.count <= 2 * Limits.deviceTokenBytes
      else { throw ValueProblem("is not a device token: an even number of hexadecimal digits") }
      return text.lowercased()
    }
  }

  static var collapseID: ValueSyntax {
    ValueSyntax("ID") { text throws(ValueProblem) in
      guard !text.isEmpty, text.utf8.count <= Limits.collapseIDBytes else {
        throw ValueProblem("is not a collapse id of 1 to \(Limits.collapseIDBytes) bytes")
      }
      return text
    }
  }

  static var channelID: ValueSyntax {
    ValueSyntax("ID") { text throws(ValueProblem) in
      guard let bytes = Base64.decode(text.utf8.span),
        (1...Limits.channelIDBytes).contains(bytes.count)
      else { throw ValueProblem("is not a channel id: base64, as the service gave it") }
      return text
    }
  }

  static var json: ValueSyntax {
    ValueSyntax("JSON") { text throws(ValueProblem) in
      guard JSONValue(text: text)?.object != nil else {
        throw ValueProblem("is not a JSON object")
      }
      return text
    }
  }
}

extension ValueSyntax where Value == Int {
  static func integer(_ placeholder: String, _ range: ClosedRange<Int>) -> ValueSyntax {
    ValueSyntax(placeholder) { text throws(ValueProblem) in
      guard let number = Int(text), range.contains(number) else {
        throw ValueProblem("is not a whole number from \(range.lowerBound) to \(range.upperBound)")
      }
      return number
    }
  }

  /// A duration in seconds, or with a unit: `90`, `90s`, `15m`, `2h`, `30d`.
  static func seconds(_ range: ClosedRange<Int>) -> ValueSyntax {
    ValueSyntax("SECONDS") { text throws(ValueProblem) in
      guard let seconds = duration(text), range.contains(seconds) else {
        throw ValueProblem(
          "is not a duration of \(range.lowerBound) to \(range.upperBound) seconds, such as 90 or 15m"
        )
      }
      return seconds
    }
  }
}

/// Seconds of `90`, `90s`, `15m`, `2h` or `30d`.
func duration(_ text: some StringProtocol) -> Int? {
  let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
  let unit = text.last.flatMap { units[$0] }
  let digits = unit == nil ? text[...] : text.dropLast()
  guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(digits) else {
    return nil
  }
  let (product, overflows) = number.multipliedReportingOverflow(by: unit ?? 1)
  return overflows ? nil : product
}

extension ValueSyntax {
  /// One of several words.
  static func choice(_ placeholder: String, _ choices: [(String, Value)]) -> ValueSyntax {
    let words = choices.map(\.0)
    return ValueSyntax(placeholder, completion: .words(words)) { text throws(ValueProblem) in
      guard let choice = choices.first(where: { $0.0 == text }) else {
        let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean \($0)?" }
        throw ValueProblem("is not one of \(words.joined(separator: ", "))\(hint ?? "")")
      }
      return choice.1
    }
  }
}

extension ValueSyntax where Value == DeviceID {
  static var deviceID: ValueSyntax {
    ValueSyntax("ID") { text throws(ValueProblem) in
      guard let id = DeviceID(text: text) else {
        throw ValueProblem("is not a device id (16 hexadecimal digits)")
      }
      return id
    }
  }
}

extension ValueSyntax where Value == NotificationID {
  static var notificationID: ValueSyntax {
    ValueSyntax("UUID") { text throws(ValueProblem) in
      guard let id = NotificationID(string: text) else {
        throw ValueProblem("is not a UUID such as 123e4567-e89b-12d3-a456-426614174000")
      }
      return id
    }
  }
}

/// When a notification expires.
package enum Expiration: Sendable, Hashable {
  /// Seconds since 1970; 0 for "deliver now or never".
  case at(Int64)
  /// Seconds from now.
  case after(Int64)

  package func seconds(now: Int64) -> Int64 {
    switch self {
    case .at(let seconds): seconds
    case .after(let seconds): now + seconds
    }
  }
}

extension ValueSyntax where Value == Expiration {
  static var expiration: ValueSyntax {
    ValueSyntax("TIME") { text throws(ValueProblem) in
      if text.hasPrefix("+"), let seconds = duration(text.dropFirst()), seconds <= 1 << 40 {
        return .after(Int64(seconds))
      }
      guard let seconds = Int64(text), 0...(1 << 40) ~= seconds else {
        throw ValueProblem(
          "is neither a number of seconds since 1970, nor a span such as +1h, nor 0")
      }
      return .at(seconds)
    }
  }
}

/// An additional topic that a certificate covers, and its label.
package struct LabelledTopic: Sendable, Hashable {
  package var topic: String
  package var label: String
}

extension ValueSyntax where Value == LabelledTopic {
  static var labelledTopic: ValueSyntax {
    ValueSyntax("TOPIC:LABEL") { text throws(ValueProblem) in
      guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
        text.index(after: colon) != text.endIndex
      else { throw ValueProblem("is not a topic and a label such as com.example.app.voip:voip") }
      let topic = String(text[..<colon])
      return LabelledTopic(
        topic: try ValueSyntax<String>.topic.read(topic),
        label: String(text[text.index(after: colon)...]))
    }
  }
}
