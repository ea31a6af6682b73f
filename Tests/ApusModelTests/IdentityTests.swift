import ApusModel
import Testing

struct NotificationIDTests {
  func parse(_ text: String) -> NotificationID? {
    let bytes = Array(text.utf8)
    return NotificationID(text: bytes.span)
  }

  /// Samples that APNs was seen to send, and the sample of Apple's page; bits read off by hand.
  static let samples: [(String, UInt64, UInt64)] = [
    ("F4121B12-E0BF-3266-F079-D9253E98BF49", 0xf412_1b12_e0bf_3266, 0xf079_d925_3e98_bf49),
    ("07C0F2E2-7CE0-71EC-D0D6-E7089220F778", 0x07c0_f2e2_7ce0_71ec, 0xd0d6_e708_9220_f778),
    ("123E4567-E89B-12D3-A456-42665544000A", 0x123e_4567_e89b_12d3, 0xa456_4266_5544_000a),
    ("00000000-0000-0000-0000-000000000000", 0, 0),
    ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", .max, .max),
  ]

  @Test("The digits of the text are in the order of the numbers", arguments: samples)
  func sample(text: String, high: UInt64, low: UInt64) {
    let id = NotificationID(high: high, low: low)
    #expect(id.text == text)
    #expect("\(id)" == text)
    #expect(parse(text) == id)
    #expect(parse(text.lowercased()) == id)
  }

  @Test("Any other form is rejected")
  func refused() {
    let good = Array("123e4567-e89b-12d3-a456-42665544000a".utf8)
    for count in 0..<good.count {
      let prefix = Array(good[..<count])
      #expect(NotificationID(text: prefix.span) == nil)
    }
    let longer = good + [0x30]
    #expect(NotificationID(text: longer.span) == nil)
    for index in good.indices {
      for byte in [0x2f, 0x3a, 0x40, 0x47, 0x60, 0x67, 0x20, 0, 0xff, 0xe1] as [UInt8] {
        var changed = good
        changed[index] = byte
        #expect(NotificationID(text: changed.span) == nil)
      }
      // A hyphen for a digit, a digit for a hyphen.
      var swapped = good
      swapped[index] = good[index] == 0x2d ? 0x30 : 0x2d
      #expect(NotificationID(text: swapped.span) == nil)
    }
    #expect(parse("{23e4567-e89b-12d3-a456-42665544000}") == nil)
  }

  @Test("Writing changes only the 36 bytes from the offset on")
  func write() {
    var bytes = [UInt8](repeating: 0xee, count: 40)
    var output = bytes.mutableSpan
    NotificationID(high: 1, low: 2).write(to: &output, at: 2)
    let text = "00000000-0000-0001-0000-000000000002"
    #expect(bytes == [0xee, 0xee] + Array(text.utf8) + [0xee, 0xee])
  }
}

struct DeviceTokenTests {
  static let digits = "00010203040506070809A0b1C2d3E4f5ffFEfdFCfbFAf9F8f7F6f5F4f3F2f1F0"
  static let bytes: [UInt8] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5,
    0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1, 0xf0,
  ]

  func parse(_ text: String) -> DeviceToken? {
    let bytes = Array(text.utf8)
    return DeviceToken(hex: bytes.span)
  }

  @Test("64 digits in either case are 32 bytes in the same order")
  func hex() throws {
    for text in [Self.digits, Self.digits.uppercased(), Self.digits.lowercased()] {
      let token = try #require(parse(text))
      #expect(token.bytes == Self.bytes)
      #expect(token == DeviceToken(bytes: Self.bytes.span))
      #expect(token.hex == Self.digits.lowercased())
      for index in Self.bytes.indices { #expect(token[index] == Self.bytes[index]) }
    }
  }

  @Test("Any other number of digits is rejected", arguments: 0...130)
  func lengths(count: Int) {
    let text = String(repeating: "a", count: count)
    #expect((parse(text) != nil) == (count == 64))
  }

  @Test("A character that is not a digit is rejected at every position")
  func noDigit() {
    for index in 0..<64 {
      for byte in [0x2f, 0x3a, 0x40, 0x47, 0x60, 0x67, 0x20, 0, 0xff] as [UInt8] {
        var text = Array(Self.digits.utf8)
        text[index] = byte
        #expect(DeviceToken(hex: text.span) == nil, "\(byte) at \(index)")
      }
    }
  }

  @Test("Exactly 32 bytes are a token", arguments: 0...101)
  func byteLengths(count: Int) {
    let bytes = [UInt8](repeating: 7, count: count)
    #expect((DeviceToken(bytes: bytes.span) != nil) == (count == 32))
  }

  @Test("Tokens that differ in any one bit are not equal")
  func equality() {
    let token = DeviceToken(bytes: Self.bytes.span)
    for bit in 0..<256 {
      var other = Self.bytes
      other[bit / 8] ^= 1 << (bit % 8)
      #expect(DeviceToken(bytes: other.span) != token)
    }
  }

  @Test("The redacted form for logs, which is also what is printed, has eight digits")
  func redacted() throws {
    let token = try #require(parse(Self.digits))
    #expect(token.redacted == "00010203…")
    #expect("\(token) \([token])" == "00010203… [00010203…]")
  }
}

struct DeviceIDTests {
  @Test(
    "A device id has 16 digits, with leading zeros",
    arguments: [
      (0, "0000000000000000"), (1, "0000000000000001"), (.max, "ffffffffffffffff"),
      (0x0123_4567_89ab_cdef, "0123456789abcdef"),
    ] as [(UInt64, String)])
  func text(value: UInt64, text: String) {
    #expect(DeviceID(value).text == text)
    #expect("\(DeviceID(value))" == text)
    #expect(DeviceID(text: text) == DeviceID(value))
  }

  @Test(
    "Any other text is not a device id",
    arguments: [
      "", "0", "000000000000000", "00000000000000000", "000000000000000g", "+000000000000001",
      "-000000000000001", " 000000000000001", "00000000000000é0",
    ])
  func refused(text: String) {
    #expect(DeviceID(text: text) == nil)
  }
}

struct NotificationTests {
  @Test(
    "Message ids are 1 to 2^31-1 and follow the order of acceptance",
    arguments: [
      (0, 1), (1, 2), (0x7fff_fffe, 0x7fff_ffff), (0x7fff_ffff, 1), (0x8000_0000, 2),
      (.max, 4),
    ] as [(UInt64, UInt32)])
  func messageID(order: UInt64, expected: UInt32) {
    let notification = Notification()
    notification.order = order
    #expect(notification.messageID == expected)
  }

  @Test(
    "Expiration 0 must not be stored and never expires; any other time expires when it is reached")
  func expiration() {
    let notification = Notification()
    notification.expirationSeconds = 0
    #expect(!notification.mayBeStored)
    #expect(!notification.isExpired(atSeconds: .max))
    notification.expirationSeconds = 1000
    #expect(notification.mayBeStored)
    #expect(!notification.isExpired(atSeconds: 999))
    #expect(notification.isExpired(atSeconds: 1000))
    #expect(notification.isExpired(atSeconds: 1001))
  }
}
