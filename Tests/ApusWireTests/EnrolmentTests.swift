import ApusModel
import ApusWire
import Testing

private func frame(_ message: some CourierMessage) -> [UInt8] {
  var output: [UInt8] = []
  message.encode(to: &output)
  return output
}

private func decode<Message: CourierMessage>(
  _ type: Message.Type, fields: String
) throws(CourierFault) -> Message {
  try Message(decoding: hex(fields).span)
}

@Suite("Courier messages: certificates")
struct EnrolmentMessageTests {
  @Test("A request with a code is read and written, and one without")
  func request() throws {
    let fields = "40 0004 41424344" + "41 0003 300101" + "42 0005 70686f6e65"
    let message = CourierEnrolmentRequest(
      code: Array("ABCD".utf8), certificateRequest: hex("300101"), name: Array("phone".utf8))
    #expect(frame(message) == hex("81 00000015" + fields))
    #expect(try decode(CourierEnrolmentRequest.self, fields: fields) == message)
    let bare = CourierEnrolmentRequest(certificateRequest: hex("300101"))
    #expect(frame(bare) == hex("81 00000006" + "41 0003 300101"))
    #expect(try decode(CourierEnrolmentRequest.self, fields: "63 0001 ff 41 0003 300101") == bare)
  }

  @Test("A request with tags is read and written; more than 16, or one of 65 bytes, are malformed")
  func tags() throws {
    let message = CourierEnrolmentRequest(
      certificateRequest: hex("3000"), tags: [Array("floor=2".utf8), Array("kiosk".utf8)])
    let fields = "41 0002 3000" + "43 0007 666c6f6f723d32" + "43 0005 6b696f736b"
    #expect(frame(message) == hex("81 00000017" + fields))
    #expect(try decode(CourierEnrolmentRequest.self, fields: fields) == message)
    let many = String(repeating: "43 0001 61", count: 16)
    #expect(
      try decode(CourierEnrolmentRequest.self, fields: "41 0000" + many).tags.count == 16)
    for fields in [many + "43 0001 61", "43 0041" + String(repeating: "61", count: 65)] {
      #expect(throws: CourierFault.self) {
        _ = try decode(CourierEnrolmentRequest.self, fields: "41 0000" + fields)
      }
    }
  }

  @Test("A renewal request is read and written")
  func renewal() throws {
    let message = CourierRenewalRequest(certificateRequest: hex("3000"))
    #expect(frame(message) == hex("83 00000005" + "41 0002 3000"))
    #expect(try decode(CourierRenewalRequest.self, fields: "41 0002 3000") == message)
  }

  @Test("Renewal advice is read and written")
  func advice() throws {
    let message = CourierRenewalAdvice(withinSeconds: 300)
    #expect(frame(message) == hex("85 00000007" + "44 0004 0000012c"))
    #expect(
      try decode(CourierRenewalAdvice.self, fields: "63 0001 ff 44 0004 0000012c") == message)
    #expect(throws: CourierFault.missingField(command: 0x85, id: 0x44)) {
      _ = try decode(CourierRenewalAdvice.self, fields: "")
    }
  }

  @Test("Every answer to a first request (0x82) and to a renewal (0x84) is read and written")
  func answers() throws {
    let cases: [(CourierIssuance, String)] = [
      (
        CourierIssuance(status: .accepted, certificates: [hex("3001"), hex("30")]),
        "0000000d 40 0001 00  43 0002 3001  43 0001 30"
      ),
      (
        CourierIssuance(status: .pending, retrySeconds: 300),
        "0000000b 40 0001 01  44 0004 0000012c"
      ),
      (
        CourierIssuance(status: .refused, reason: .code, text: Array("no".utf8)),
        "0000000d 40 0001 02  41 0001 01  42 0002 6e6f"
      ),
      (
        CourierIssuance(status: .refused, reason: .tooMany, retrySeconds: 1),
        "0000000f 40 0001 02  41 0001 03  44 0004 00000001"
      ),
    ]
    for (issuance, text) in cases {
      #expect(frame(CourierEnrolmentAnswer(issuance)) == hex("82" + text))
      #expect(frame(CourierRenewalAnswer(issuance)) == hex("84" + text))
      let fields = String(text.dropFirst(8))
      #expect(try decode(CourierEnrolmentAnswer.self, fields: fields).issuance == issuance)
      #expect(try decode(CourierRenewalAnswer.self, fields: fields).issuance == issuance)
    }
    let reasons: [CourierIssuance.Reason] = [
      .code, .request, .tooMany, .unavailable, .notOffered, .rejected, .early, .retired,
    ]
    #expect(reasons.map(\.rawValue) == Array(1...8))
  }

  @Test(
    "A message with a missing or oversized field is rejected",
    arguments: [
      ("40 0001 41", CourierFault.missingField(command: 0x81, id: 0x41)),
      ("40 0041 \(run("41", 65)) 41 0001 30", .badField(command: 0x81, id: 0x40, length: 65)),
      ("41 2001 \(run("30", 8193))", .badField(command: 0x81, id: 0x41, length: 8193)),
      ("41 0001 30 42 0041 \(run("61", 65))", .badField(command: 0x81, id: 0x42, length: 65)),
      ("63 0001 ff 41 0009 30", .truncatedField(command: 0x81, offset: 4)),
    ])
  func badRequest(fields: String, fault: CourierFault) {
    #expect(throws: fault) { try decode(CourierEnrolmentRequest.self, fields: fields) }
  }

  @Test("Empty answers and renewals are rejected")
  func badAnswers() {
    #expect(throws: CourierFault.missingField(command: 0x83, id: 0x41)) {
      try decode(CourierRenewalRequest.self, fields: "40 0001 00")
    }
    #expect(throws: CourierFault.badField(command: 0x83, id: 0x41, length: 8193)) {
      try decode(CourierRenewalRequest.self, fields: "41 2001 \(run("30", 8193))")
    }
    #expect(throws: CourierFault.missingField(command: 0x82, id: 0x40)) {
      try decode(CourierEnrolmentAnswer.self, fields: "44 0004 00000001")
    }
    #expect(throws: CourierFault.missingField(command: 0x84, id: 0x43)) {
      try decode(CourierRenewalAnswer.self, fields: "40 0001 00")
    }
    #expect(throws: CourierFault.badField(command: 0x82, id: 0x44, length: 2)) {
      try decode(CourierEnrolmentAnswer.self, fields: "40 0001 01 44 0002 0001")
    }
  }
}

@Suite("Enrolment codes")
struct EnrolmentCodeTests {
  private func read(_ text: String) -> EnrolmentCode? {
    let bytes = Array(text.utf8)
    return EnrolmentCode(text: bytes.span)
  }

  /// The texts were created by another program, from the description.
  @Test(
    "Bits become letters and back",
    arguments: [
      (run("00", 16), "0000-0000-0000-0000-0000-0000-0000"),
      (run("ff", 16), "ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZWT2"),
      ("000102030405060708090a0b0c0d0e0f", "000G-40R4-0M30-E209-185G-R38E-1W0H"),
      ("0123456789abcdeffedcba9876543210", "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A"),
    ])
  func fixtures(bytes: String, text: String) {
    let code = EnrolmentCode(bytes: hex(bytes))
    #expect(code.text == text)
    #expect(read(text) == code)
  }

  @Test("Case, hyphens, spaces and look-alikes are ignored")
  func typed() throws {
    let code = EnrolmentCode(bytes: hex("0123456789abcdeffedcba9876543210"))
    for text in [
      "04hm-asw9-nf6y-zzpw-qac7-cn1j-205a", "04HMASW9NF6YZZPWQAC7CN1J205A",
      "o4hm asw9 nf6y zzpw qac7 cnIj 2O5a", " 04HM-ASW9-NF6Y-ZZPW-QAC7-CNLJ-205A ",
    ] {
      #expect(read(text) == code, "\(text)")
    }
  }

  @Test("An error in any character, and any swap of two characters, is detected")
  func slips() {
    let text = Array("04HMASW9NF6YZZPWQAC7CN1J205A".utf8)
    let letters = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)
    for index in text.indices {
      for letter in letters where letter != text[index] {
        var slip = text
        slip[index] = letter
        #expect(EnrolmentCode(text: slip.span) == nil)
      }
      if index > 0, text[index] != text[index - 1] {
        var slip = text
        slip.swapAt(index, index - 1)
        #expect(EnrolmentCode(text: slip.span) == nil)
      }
    }
  }

  @Test(
    "A text that cannot be a code is rejected",
    arguments: [
      "", "-", "04HM", "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205", "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205AA",
      "U4HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A", "04HM_ASW9-NF6Y-ZZPW-QAC7-CN1J-205A",
      "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205Å",
      String(repeating: " ", count: 65) + "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A",
    ])
  func none(text: String) { #expect(read(text) == nil) }
}
