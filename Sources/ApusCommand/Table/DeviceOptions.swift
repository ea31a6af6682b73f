package import ApusModel

/// The options of `apus device`. Each belongs to some of its actions.
package enum DeviceOptions {
  package static let name = option(
    "--name", .labelName, group: .issue,
    help: "With add, set and approve: the name of the device, which no other device has.")
  package static let tag = option(
    "--tag", .deviceTag, group: .issue, repeats: true,
    help:
      "With add, set and approve: a tag, KEY=VALUE or KEY, in place of another value of its key. With list: only "
      + "devices with it; a key alone is any value. May be repeated.")
  package static let noName = option(
    "--no-name", .flag, group: .change, help: "With set: take the name away.")
  package static let untag = option(
    "--untag", .tagKey, group: .change, repeats: true,
    help: "With set: take away the tag with this key. May be repeated.")
  package static let rsaBits = option(
    "--rsa", .choice("BITS", [("2048", 2048), ("3072", 3072), ("4096", 4096)]), group: .issue,
    note: "an ECDSA key on P-256",
    help: "With add: make an RSA key of 2048, 3072 or 4096 bits.")
  package static let days = option(
    "--days", .integer("N", 1...3650), group: .issue, default: "730",
    help: "With add and approve: days for which the certificate is valid.")
  package static let certificate = option(
    "--certificate", .file, group: .device,
    help:
      "With approve: the certificate, if the key of the device authority is kept elsewhere.")

  /// The device that `apus doctor` examines.
  package static let examined = Option(
    "--device", .text("DEVICE"), in: [Verb.doctor], group: .search, scope: .flagOnly,
    help:
      "Name the likely cause why the device with this id or name gets nothing; with --topic, of this app."
  )

  private static func option<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, group: OptionGroup,
    default defaultText: String? = nil, note: String? = nil, repeats: Bool = false, help: String
  ) -> Option<Value> {
    Option(
      flag, syntax, in: [Verb.device], group: group, scope: .flagOnly, default: defaultText,
      note: note, repeats: repeats, help: help)
  }

  static let all: [OptionDescription] = [
    name.description, tag.description, noName.description, untag.description,
    rsaBits.description, days.description, certificate.description, examined.description,
  ]
}

/// What `apus device` does: its first operand.
package enum DeviceAction: String, Sendable, CaseIterable {
  case list, show, add, set, retire, pending, approve, reject

  /// What follows: a placeholder, and how many there may be.
  private var operands: (what: String, count: ClosedRange<Int>) {
    switch self {
    case .list: ("TEXT", 0...1)
    case .show, .set: ("DEVICE", 1...1)
    case .retire: ("DEVICE", 1...Int.max)
    case .approve, .reject: ("KEY", 1...Int.max)
    case .add, .pending: ("", 0...0)
    }
  }

  /// Those that change what it does.
  private var options: [OptionDescription] {
    switch self {
    case .list: [DeviceOptions.tag.description]
    case .add:
      [
        DeviceOptions.name.description, DeviceOptions.tag.description,
        DeviceOptions.rsaBits.description, DeviceOptions.days.description,
        TrustOptions.request.description, TrustOptions.requestOut.description,
      ]
    case .set:
      [
        DeviceOptions.name.description, DeviceOptions.noName.description,
        DeviceOptions.tag.description, DeviceOptions.untag.description,
      ]
    case .approve:
      [
        DeviceOptions.name.description, DeviceOptions.tag.description,
        DeviceOptions.days.description, DeviceOptions.certificate.description,
      ]
    case .show, .retire, .pending, .reject: []
    }
  }

  /// The action of a command line, and what it is about. Without operands the devices are listed.
  package static func read(
    _ invocation: Invocation
  ) throws(CommandFailure) -> (action: DeviceAction, operands: [String]) {
    let word = invocation.operands.first ?? list.rawValue
    guard let action = DeviceAction(rawValue: word) else {
      throw CommandFailure(
        .usage, "unknown action \"\(word)\"",
        remedy: "Use \(allCases.dropLast().map(\.rawValue).joined(separator: ", ")) or reject.")
    }
    let rest = Array(invocation.operands.dropFirst())
    let (what, count) = action.operands
    guard count ~= rest.count else {
      let usage = "apus device \(word)\(count.lowerBound > 0 ? " \(what)" : "")"
      throw CommandFailure(
        .usage,
        rest.isEmpty
          ? "\(word) needs a \(what)"
          : "\(word) takes \(count.upperBound == 0 ? "none" : "one") "
            + "of these: \(rest.joined(separator: " "))", remedy: "Use `\(usage)`.")
    }
    let own = Set(action.options.map(\.flag))
    for option in Set(allCases.flatMap(\.options).map(\.flag)).subtracting(own).sorted()
    where invocation.isFlagged(flag: option) {
      let others = allCases.filter { $0.options.contains { $0.flag == option } }.map(\.rawValue)
      throw CommandFailure(
        .usage, "\(option) has no effect with \(word)",
        remedy: "Use it with `apus device \(others.joined(separator: "`, `"))`.")
    }
    return (action, rest)
  }
}

extension ValueSyntax where Value == DeviceName {
  static var labelName: ValueSyntax {
    ValueSyntax("NAME") { text throws(ValueProblem) in
      guard let name = DeviceName(text) else {
        throw ValueProblem("is not a name: \(DeviceName.form)")
      }
      return name
    }
  }
}

extension ValueSyntax where Value == DeviceTag {
  static var deviceTag: ValueSyntax {
    ValueSyntax("TAG") { text throws(ValueProblem) in
      guard let tag = DeviceTag(text) else {
        throw ValueProblem("is not a tag: \(DeviceTag.form)")
      }
      return tag
    }
  }
}

extension ValueSyntax where Value == String {
  static var tagKey: ValueSyntax {
    ValueSyntax("KEY") { text throws(ValueProblem) in
      guard let tag = DeviceTag(text), tag.key == text else {
        throw ValueProblem("is not the key of a tag: letters, digits and . _ -")
      }
      return text
    }
  }
}
