import ApusModel
import ApusWire
import Testing

@Suite("Courier frames")
struct CourierFrameTests {
  struct Frame: Equatable {
    var command: UInt8
    var fields: [UInt8]
  }

  /// Everything that a framer finds when it is fed one part after the other.
  private func frames(_ parts: [[UInt8]], _ framer: inout CourierFramer) throws(CourierFault)
    -> [Frame]
  {
    var found: [Frame] = []
    for part in parts {
      var offset = 0
      while let frame = try framer.next(part.span, at: &offset) {
        found.append(Frame(command: frame.command, fields: frame.fields(in: part.span).copied()))
      }
      #expect(offset == part.count, "an input is taken in whole")
    }
    return found
  }

  private func frames(_ parts: [[UInt8]]) throws(CourierFault) -> [Frame] {
    var framer = CourierFramer()
    return try frames(parts, &framer)
  }

  private let expected = FrameFixture.all.map { Frame(command: $0[0], fields: Array($0[5...])) }

  @Test("Several frames in one input are returned in order")
  func several() throws {
    #expect(try frames([FrameFixture.all.flatMap(\.self)]) == expected)
  }

  @Test("A stream cut at any byte gives the same frames")
  func everySplit() throws {
    let stream = FrameFixture.all.flatMap(\.self)
    for cut in 0...stream.count {
      #expect(try frames([Array(stream[..<cut]), Array(stream[cut...])]) == expected, "at \(cut)")
    }
    #expect(try frames(stream.map { [$0] }) == expected, "byte by byte")
  }

  @Test("Three parts, the middle one inside a frame, give the same frames")
  func threeParts() throws {
    let stream = FrameFixture.notification + FrameFixture.keepAlive
    for first in 0...stream.count {
      for second in first...stream.count {
        let parts = [stream[..<first], stream[first..<second], stream[second...]].map(Array.init)
        #expect(try frames(parts) == [expected[6], expected[4]], "at \(first) and \(second)")
      }
    }
  }

  @Test("A framer keeps no memory between frames")
  func keepsNothing() throws {
    var framer = CourierFramer()
    _ = try frames([Array(FrameFixture.filter[..<20])], &framer)
    #expect(framer.partialBytes == 20)
    _ = try frames([Array(FrameFixture.filter[20...])], &framer)
    #expect(framer.partialBytes == 0)
    _ = try frames([FrameFixture.connect], &framer)
    #expect(framer.partialBytes == 0)
  }

  @Test("A frame of 65,536 bytes of fields is read")
  func longest() throws {
    let fields = [UInt8](repeating: 7, count: 65536)
    #expect(try frames([hex("0a 00010000"), fields]) == [Frame(command: 0x0a, fields: fields)])
  }

  @Test(
    "A longer frame is rejected at its header",
    arguments: [("0a 00010001", 65537), ("09 ffffffff", 4_294_967_295)])
  func tooLong(header: String, length: Int) {
    let fault = CourierFault.frameTooLong(command: hex(header)[0], length: length)
    #expect(throws: fault) { try frames([hex(header)]) }
    #expect(throws: fault) { try frames(hex(header).map { [$0] }) }
  }

  @Test("Command 0 is rejected at its first byte")
  func commandZero() {
    #expect(throws: CourierFault.commandZero) { try frames([[0]]) }
    #expect(throws: CourierFault.commandZero) { try frames([FrameFixture.keepAlive + [0]]) }
    #expect(throws: CourierFault.commandZero) { try frames([hex("00 00000000")]) }
  }
}

@Suite("Courier fields")
struct CourierFieldTests {
  private func fields(_ bytes: [UInt8]) throws(CourierFault) -> [String] {
    var fields = CourierFields(.filter, bytes.span)
    var found: [String] = []
    while let field = try fields.next() {
      found.append("\(field.id)@\(field.offset):\(field.value.copied())")
      #expect(Array(bytes[field.range]) == field.value.copied())
    }
    return found
  }

  @Test("Fields are returned in order, including repeated and empty ones")
  func order() throws {
    #expect(try fields([]) == [])
    #expect(
      try fields(hex("02 0001 ff" + "02 0002 0102" + "63 0000")) == [
        "2@3:[255]", "2@7:[1, 2]", "99@12:[]",
      ])
  }

  @Test(
    "A truncated field is a fault",
    arguments: ["01", "0100", "010001", "01000201", "01ffff"])
  func truncated(field: String) {
    #expect(throws: CourierFault.truncatedField(command: 9, offset: 0)) { try fields(hex(field)) }
    #expect(throws: CourierFault.truncatedField(command: 9, offset: 4)) {
      try fields(hex("02 0001 ff" + field))
    }
  }

  /// The result of reading a field of `length` bytes, each 1: its value as text, or its fault.
  private func reading(_ kind: String, _ length: Int) throws(CourierFault) -> String {
    let bytes = [9, 0, UInt8(length)] + [UInt8](repeating: 1, count: length)
    var fields = CourierFields(.filter, bytes.span)
    guard let field = try fields.next() else { return "no field" }
    switch kind {
    case "u8": return "\(try field.u8())"
    case "u16": return "\(try field.u16())"
    case "u32": return "\(try field.u32())"
    case "u64": return "\(try field.u64())"
    case "topic":
      let topic = try field.topic()
      return (0..<20).map { "\(topic[$0])" }.joined()
    default: return try field.token().hex
    }
  }

  @Test(
    "Fixed lengths are exact",
    arguments: [
      ("u8", 1, "1"), ("u16", 2, "257"), ("u32", 4, "16843009"), ("u64", 8, "72340172838076673"),
      ("topic", 20, run("1", 20)), ("token", 32, run("01", 32)),
    ])
  func lengths(kind: String, length: Int, expected: String) throws {
    #expect(try reading(kind, length) == expected)
    for other in 0...40 where other != length {
      #expect(throws: CourierFault.badField(command: 9, id: 9, length: other)) {
        try reading(kind, other)
      }
    }
  }
}

@Suite("Reading and writing bytes")
struct ByteTests {
  @Test("With too few bytes left, a reader returns nil and does not advance")
  func reader() {
    let bytes = hex("01 0203 04050607 08090a0b0c0d0e0f ff")
    var reader = ByteReader(bytes.span)
    #expect(reader.u8() == 1)
    #expect(reader.u16() == 0x0203)
    #expect(reader.u32() == 0x0405_0607)
    #expect(reader.u64() == 0x0809_0a0b_0c0d_0e0f)
    #expect(reader.u64() == nil && reader.u32() == nil && reader.u16() == nil)
    #expect(reader.take(2) == nil && reader.take(-1) == nil)
    #expect(reader.remaining == 1 && reader.offset == 15)
    #expect(reader.take(1)?[0] == 0xff)
    #expect(reader.u8() == nil && reader.take(0)?.count == 0)
  }

  @Test("Numbers are appended and patched big-endian")
  func writer() {
    var bytes: [UInt8] = [0xee]
    bytes.append(bigEndian: 0x0102 as UInt16)
    bytes.append(bigEndian: 0x0304_0506 as UInt32)
    bytes.append(bigEndian: 0x0708_090a_0b0c_0d0e as UInt64)
    #expect(bytes == hex("ee 0102 03040506 0708090a0b0c0d0e"))
    bytes.patch(bigEndian: 0xa1a2 as UInt16, at: 1)
    bytes.patch(bigEndian: 0xb1b2_b3b4 as UInt32, at: 3)
    #expect(bytes == hex("ee a1a2 b1b2b3b4 0708090a0b0c0d0e"))
  }
}
