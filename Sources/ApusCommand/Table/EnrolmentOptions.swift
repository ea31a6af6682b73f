import ApusModel

/// Which devices without a certificate get one.
package enum EnrolmentChoice: Sendable { case all, codes, off }

/// The options with which devices get their certificates.
package enum EnrolmentOptions {
  // MARK: code

  package static let codeName = Option(
    "--name", .deviceName, in: [Verb.code], group: .issue, scope: .flagOnly,
    note: "what the device calls itself",
    help: "The name in the certificate of the device that enrols with it.")
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
    help: "Withdraw a code, given by itself or by its digits in the list.")

  // MARK: device

  package static let pending = Option(
    "--pending", .flag, in: [Verb.device], group: .device, scope: .flagOnly,
    help: "List the devices that ask for a certificate and wait for a decision.")
  package static let approve = Option(
    "--approve", .keyPrefix, in: [Verb.device], group: .device, scope: .flagOnly, repeats: true,
    help: "Issue the certificate to the one whose key begins with these digits. May be repeated.")
  package static let reject = Option(
    "--reject", .keyPrefix, in: [Verb.device], group: .device, scope: .flagOnly, repeats: true,
    help: "Reject that one. May be repeated.")
  package static let certificate = Option(
    "--certificate", .file, in: [Verb.device], group: .device, scope: .flagOnly,
    help: "With --approve: the certificate, where the devices' authority is kept elsewhere.")

  // MARK: serve

  package static let enrolment = Option(
    "--enrolment",
    .choice(
      "WHO", [("all", EnrolmentChoice.all), ("codes", .codes), ("off", .off)]), in: [Verb.serve],
    group: .service, default: "all",
    help:
      "Which devices may ask for a certificate: all, those with a one-time code (codes), or none (off)."
  )
  package static let deviceDays = Option(
    "--device-days", .integer("N", 1...3650), in: [Verb.serve], group: .service, default: "730",
    help: "Days for which certificates are valid that devices request.")

  // MARK: listen

  package static let identity = Option(
    "--identity", .file, in: [Verb.listen], group: .device, scope: .named("device-identity"),
    help:
      "One file for key and certificate, instead of two: made at the first start, renewed in time.")
  package static let enroll = Option(
    "--enroll", .text("CODE"), in: [Verb.listen], group: .device, scope: .flagOnly,
    note: "the service's operator is asked",
    help: "At the first start: the one-time code from `apus code`.")
  package static let name = Option(
    "--name", .deviceName, in: [Verb.listen], group: .device, scope: .flagOnly,
    note: "this machine's name", help: "At the first start: what people call the device.")
}

extension ValueSyntax where Value == String {
  static var deviceName: ValueSyntax {
    ValueSyntax("NAME") { text throws(ValueProblem) in
      guard 1...Limits.deviceNameBytes ~= text.utf8.count,
        text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
      else {
        throw ValueProblem(
          "has not between 1 and \(Limits.deviceNameBytes) bytes, or has control characters")
      }
      return text
    }
  }

  /// The beginning of a SHA-256, given back in lower case.
  static var keyPrefix: ValueSyntax {
    ValueSyntax("KEY") { text throws(ValueProblem) in
      guard 8...64 ~= text.utf8.count, text.utf8.allSatisfy({ hexValue($0) != nil }) else {
        throw ValueProblem("is not 8 to 64 hexadecimal digits, as --pending shows them")
      }
      return text.lowercased()
    }
  }
}
