package import ApusModel

/// Which devices may ask the service for a certificate.
package enum EnrolmentChoice: Sendable { case all, codes, off }

/// The options for the enrolment of devices.
package enum EnrolmentOptions {
  // MARK: code

  package static let codeTags = Option(
    "--tag", .deviceTag, in: [Verb.code], group: .issue, scope: .flagOnly, repeats: true,
    help: "A tag, KEY=VALUE or KEY, of each device that enrols with the code. May be repeated.")
  package static let ownTags = Option(
    "--own-tags", .flag, in: [Verb.code], group: .issue, scope: .flagOnly,
    help: "The device may add tags that it chose itself.")
  package static let codeName = Option(
    "--name", .labelName, in: [Verb.code], group: .issue, scope: .flagOnly,
    note: "the name that the device sends",
    help: "The name of the device. Further devices of the code get it with a number behind it.")
  package static let expires = Option(
    "--expires", .integer("HOURS", 1...8760), in: [Verb.code], group: .issue, scope: .flagOnly,
    default: "24", help: "Hours for which the code is valid.")
  package static let uses = Option(
    "--uses", .integer("N", 1...Limits.enrolmentCodeUses), in: [Verb.code], group: .issue,
    scope: .flagOnly, default: "1", help: "How many devices can enrol with it.")
  package static let list = Option(
    "--list", .flag, in: [Verb.code], group: .issue, scope: .flagOnly,
    help: "List the codes; the codes themselves are not stored.")
  package static let withdraw = Option(
    "--withdraw", .text("CODE"), in: [Verb.code], group: .issue, scope: .flagOnly,
    help: "Withdraw a code, given in full or by its digits in the list.")

  // MARK: serve

  package static let enrolment = Option(
    "--enrolment",
    .choice(
      "WHO", [("all", EnrolmentChoice.all), ("codes", .codes), ("off", .off)]), in: [Verb.serve],
    group: .service, default: "all",
    help:
      "Which devices may ask for a certificate: all, those with an enrolment code (codes), or none (off)."
  )
  package static let deviceDays = Option(
    "--device-days", .integer("N", 1...3650), in: [Verb.serve], group: .service, default: "730",
    help: "Days for which certificates requested by devices are valid.")

  // MARK: listen

  package static let identity = Option(
    "--identity", .file, in: [Verb.listen], group: .device, scope: .named("device-identity"),
    help:
      "One file for key and certificate, created at the first start and renewed in time.")
  package static let enroll = Option(
    "--enroll", .text("CODE"), in: [Verb.listen], group: .device, scope: .flagOnly,
    note: "the service's operator decides",
    help: "At the first start: the enrolment code from `apus code`.")
  package static let tags = Option(
    "--tag", .deviceTag, in: [Verb.listen], group: .device, scope: .flagOnly, repeats: true,
    help: "At the first start: a tag for the device, if the operator allows it. May be repeated.")
  package static let name = Option(
    "--name", .deviceName, in: [Verb.listen], group: .device, scope: .flagOnly,
    note: "this machine's name", help: "At the first start: a readable name for the device.")
}

extension ValueSyntax where Value == String {
  static var deviceName: ValueSyntax {
    ValueSyntax("NAME") { text throws(ValueProblem) in
      guard 1...Limits.deviceNameBytes ~= text.utf8.count,
        text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
      else {
        throw ValueProblem(
          "is not a name of 1 to \(Limits.deviceNameBytes) bytes without control characters")
      }
      return text
    }
  }
}
