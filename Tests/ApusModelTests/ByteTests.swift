import ApusModel
import Testing

struct RequestFieldsTests {
  func add(_ fields: inout RequestFields, _ name: HeaderName, _ bytes: [UInt8]) -> Bool {
    fields.add(name, value: bytes.span)
  }

  func value(_ fields: RequestFields, _ name: HeaderName) -> [UInt8] {
    fields.value(name).copied()
  }

  @Test("Every field has a slot of its own")
  func places() {
    var fields = RequestFields()
    for (index, name) in HeaderName.allCases.enumerated() {
      #expect(!fields.contains(name))
      #expect(add(&fields, name, [UInt8](repeating: UInt8(index), count: index)))
    }
    for (index, name) in HeaderName.allCases.enumerated() {
      #expect(fields.contains(name))
      #expect(fields.occurrences(of: name) == 1)
      #expect(value(fields, name) == [UInt8](repeating: UInt8(index), count: index))
    }
  }

  @Test("An empty value counts as present")
  func empty() {
    var fields = RequestFields()
    #expect(add(&fields, .apnsTopic, []))
    #expect(fields.contains(.apnsTopic))
    #expect(value(fields, .apnsTopic) == [])
    #expect(value(fields, .apnsID) == [])
    #expect(add(&fields, .apnsTopic, [1]))
    #expect(fields.occurrences(of: .apnsTopic) == 2)
    #expect(value(fields, .apnsTopic) == [])
  }

  @Test("The first value is kept, and further ones are only counted, however many there are")
  func duplicates() {
    var fields = RequestFields()
    for round in 1...300 {
      #expect(add(&fields, .apnsID, [UInt8(truncatingIfNeeded: round)]))
      #expect(fields.occurrences(of: .apnsID) == min(round, 255))
    }
    #expect(value(fields, .apnsID) == [1])
  }

  @Test("8,000 bytes fit, one more does not, and earlier values stay")
  func room() {
    var fields = RequestFields()
    #expect(add(&fields, .path, [UInt8](repeating: 1, count: 7999)))
    #expect(!add(&fields, .apnsID, [2, 3]))
    #expect(!fields.contains(.apnsID))
    #expect(add(&fields, .apnsID, [4]))
    #expect(!add(&fields, .apnsTopic, [5]))
    #expect(add(&fields, .apnsTopic, []))
    #expect(value(fields, .path) == [UInt8](repeating: 1, count: 7999))
    #expect(value(fields, .apnsID) == [4])
  }

  @Test("removeAll removes all fields and frees all the room")
  func removeAll() {
    var fields = RequestFields()
    for _ in 0..<3 {
      #expect(add(&fields, .authorization, [UInt8](repeating: 9, count: 8000)))
      #expect(add(&fields, .authorization, [1]))
      fields.removeAll()
      for name in HeaderName.allCases {
        #expect(!fields.contains(name))
        #expect(fields.occurrences(of: name) == 0)
        #expect(value(fields, name) == [])
      }
    }
  }
}

struct ByteStoreTests {
  func bytes(_ store: ByteStore) -> [UInt8] { store.span.copied() }

  @Test("set replaces, append adds, removeAll empties", arguments: [0, 1, 4, 100])
  func verbs(capacity: Int) {
    var store = ByteStore(capacity: capacity)
    #expect(store.isEmpty)
    #expect(bytes(store) == [])
    let first: [UInt8] = [1, 2, 3]
    let second: [UInt8] = [4, 5]
    store.set(first.span)
    #expect(bytes(store) == [1, 2, 3])
    store.append(second.span)
    #expect(bytes(store) == [1, 2, 3, 4, 5])
    #expect(store.count == 5)
    store.set(second.span)
    #expect(bytes(store) == [4, 5])
    store.append([UInt8]().span)
    #expect(bytes(store) == [4, 5])
    store.removeAll()
    #expect(store.isEmpty)
    #expect(bytes(store) == [])
  }

  @Test("It grows beyond its capacity without losing a byte")
  func growth() {
    var store = ByteStore(capacity: 1)
    var expected: [UInt8] = []
    for round in 0..<200 {
      let part = (0..<round).map { UInt8(truncatingIfNeeded: round &* 31 &+ $0) }
      store.append(part.span)
      expected += part
    }
    #expect(bytes(store) == expected)
  }

  @Test("A copy does not change with its original")
  func value() {
    var store = ByteStore(capacity: 4)
    let first: [UInt8] = [1, 2]
    let second: [UInt8] = [3, 4]
    store.set(first.span)
    let copy = store
    store.set(second.span)
    #expect(bytes(copy) == [1, 2])
    #expect(bytes(store) == [3, 4])
  }
}

struct BytesTests {
  static let text: [UInt8] = Array("bearer token".utf8)

  @Test("A span equals a text only if every byte does")
  func equality() {
    let same = Self.text.span.equals("bearer token")
    let shorter = Self.text.span.equals("bearer toke")
    let longer = Self.text.span.equals("bearer tokens")
    let other = Self.text.span.equals("bearer tokeN")
    let empty = [UInt8]().span.equals("")
    #expect(same)
    #expect(!shorter)
    #expect(!longer)
    #expect(!other)
    #expect(empty)
  }

  @Test("Without regard to case, only letters have two forms")
  func ignoringCase() {
    for byte in UInt8.min...UInt8.max {
      let bytes: [UInt8] = [byte]
      let isK = bytes.span.equalsIgnoringCase("k")
      let isBrace = bytes.span.equalsIgnoringCase("{")
      let isAccent = bytes.span.equalsIgnoringCase("`")
      #expect(isK == (byte == 0x6b || byte == 0x4b))
      #expect(isBrace == (byte == 0x7b))
      #expect(isAccent == (byte == 0x60))
    }
    let prefix = Array("Bearer".utf8)
    let isShorter = prefix.span.equalsIgnoringCase("bearer ")
    #expect(!isShorter)
  }

  @Test("A text ends with another only if all of it matches")
  func ending() {
    let token = Self.text.span.endsWith("token")
    let whole = Self.text.span.endsWith("bearer token")
    let longer = Self.text.span.endsWith(" bearer token")
    let middle = Self.text.span.endsWith("toke")
    let nothing = Self.text.span.endsWith("")
    #expect(token)
    #expect(whole)
    #expect(!longer)
    #expect(!middle)
    #expect(nothing)
  }

  @Test("Spans are equal if all their bytes are")
  func runs() {
    for index in Self.text.indices {
      var other = Self.text
      other[index] ^= 0x20
      let isEqual = Self.text.span.equals(other.span)
      let prefix = Array(Self.text[..<index])
      let isPrefix = Self.text.span.equals(prefix.span)
      #expect(!isEqual)
      #expect(!isPrefix)
    }
    let copy = Self.text
    let isEqual = Self.text.span.equals(copy.span)
    #expect(isEqual)
  }

  @Test("The common prefix ends at the first difference, whatever follows it")
  func commonPrefix() {
    let bytes = (0..<100).map { UInt8($0 &* 37 & 0xff) }
    for length in 0...bytes.count {
      let left = Array(bytes[..<length])
      #expect(left.span.commonPrefixCount(with: bytes.span) == length)
      #expect(bytes.span.commonPrefixCount(with: left.span) == length)
      for index in 0..<length {
        var right = left
        right[index] ^= 0x80
        if index + 1 < length { right[index + 1] ^= 0xff }
        #expect(left.span.commonPrefixCount(with: right.span) == index)
      }
    }
  }

  @Test("Copies, texts and appended bytes equal the span")
  func copies() {
    let part = Self.text.span.extracting(7..<12)
    let copy = part.copied()
    let text = part.text
    var output: [UInt8] = [0]
    output.append(part)
    output.append("é" as StaticString)
    #expect(copy == [0x74, 0x6f, 0x6b, 0x65, 0x6e])
    #expect(text == "token")
    #expect(output == [0, 0x74, 0x6f, 0x6b, 0x65, 0x6e, 0xc3, 0xa9])
    #expect(("apns-id" as StaticString).bytes == Array("apns-id".utf8))
  }

  @Test("Writing changes only the bytes written")
  func write() {
    var bytes = [UInt8](repeating: 0, count: 6)
    let source: [UInt8] = [1, 2, 3]
    bytes.write(source.span, at: 2)
    #expect(bytes == [0, 0, 1, 2, 3, 0])
    bytes.write(source.span, at: 3)
    #expect(bytes == [0, 0, 1, 1, 2, 3])
    bytes.write([UInt8]().span, at: 6)
    #expect(bytes == [0, 0, 1, 1, 2, 3])
  }

  @Test("Hexadecimal digits have values, and values have lower-case digits")
  func digits() {
    let digits = Array("0123456789abcdef".utf8)
    let upper = Array("0123456789ABCDEF".utf8)
    for byte in UInt8.min...UInt8.max {
      let expected = digits.firstIndex(of: byte) ?? upper.firstIndex(of: byte)
      #expect(hexValue(byte).map(Int.init) == expected)
    }
    for value in 0..<16 { #expect(hexDigit(UInt8(value)) == digits[value]) }
  }
}
