/// Reads a `Localizable.strings` file: `"key" = "text";`, with C comments.
///
/// Source: Internationalization and Localization Guide (Apple). UTF-8, or UTF-16 with a byte order mark, which Apple's
/// own tools write.
struct StringsFile {
  private let scalars: [Unicode.Scalar]
  private var index = 0

  static func read(_ bytes: [UInt8]) throws(InputFault) -> DeviceBook.StringTable {
    let text = try decode(bytes)
    var file = StringsFile(scalars: Array(text.unicodeScalars))
    return DeviceBook.StringTable(text: text, strings: try file.pairs())
  }

  private init(scalars: [Unicode.Scalar]) { self.scalars = scalars }

  private static func decode(_ bytes: [UInt8]) throws(InputFault) -> String {
    for (mark, isBig) in [([0xff, 0xfe] as [UInt8], false), ([0xfe, 0xff], true)]
    where bytes.starts(with: mark) {
      let units = stride(from: 2, to: bytes.count - 1, by: 2).map { (index: Int) -> UInt16 in
        let (first, second) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
        return isBig ? first << 8 | second : second << 8 | first
      }
      return String(decoding: units, as: UTF16.self)
    }
    let bytes = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? Array(bytes.dropFirst(3)) : bytes
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw InputFault("this is neither UTF-8 nor UTF-16", offset: 0)
    }
    return text
  }

  // MARK: Grammar

  private mutating func pairs() throws(InputFault) -> [String: String] {
    var pairs: [String: String] = [:]
    while true {
      try skip()
      guard index < scalars.count else { return pairs }
      let key = try word()
      try skip()
      // `key;` is short for a text equal to its key.
      guard peek == "=" else {
        try take(";", "an equals sign")
        pairs[key] = key
        continue
      }
      index += 1
      try skip()
      pairs[key] = try word()
      try skip()
      try take(";", "a semicolon")
    }
  }

  private var peek: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

  private func fault(_ message: String, at place: Int? = nil) -> InputFault {
    // Fault offsets count bytes.
    let before = scalars[..<min(place ?? index, scalars.count)]
    return InputFault(message, offset: before.reduce(0) { $0 + UTF8.width($1) })
  }

  private mutating func take(
    _ scalar: Unicode.Scalar, _ name: String
  ) throws(InputFault) {
    guard peek == scalar else { throw fault("\(name) is missing here") }
    index += 1
  }

  private mutating func skip() throws(InputFault) {
    while let scalar = peek {
      let next = index + 1 < scalars.count ? scalars[index + 1] : nil
      if scalar.properties.isWhitespace {
        index += 1
      } else if scalar == "/", next == "/" {
        while peek != nil, peek != "\n" { index += 1 }
      } else if scalar == "/", next == "*" {
        try skipComment()
      } else {
        return
      }
    }
  }

  private mutating func skipComment() throws(InputFault) {
    let start = index
    index += 2
    while index + 1 < scalars.count {
      if scalars[index] == "*", scalars[index + 1] == "/" {
        index += 2
        return
      }
      index += 1
    }
    throw fault("this comment is not closed", at: start)
  }

  /// A text in quotation marks, or unquoted letters and digits.
  private mutating func word() throws(InputFault) -> String {
    guard peek == "\"" else { return try bareWord() }
    let start = index
    index += 1
    var text = String.UnicodeScalarView()
    while let scalar = peek {
      index += 1
      switch scalar {
      case "\"": return String(text)
      case "\\": try escape(&text)
      default: text.append(scalar)
      }
    }
    throw fault("this text is not closed", at: start)
  }

  private mutating func bareWord() throws(InputFault) -> String {
    var text = String.UnicodeScalarView()
    while let scalar = peek,
      scalar.properties.isAlphabetic || "0"..."9" ~= scalar
        || "_.-$:".unicodeScalars.contains(scalar)
    {
      text.append(scalar)
      index += 1
    }
    guard !text.isEmpty else { throw fault("a text in quotation marks is missing here") }
    return String(text)
  }

  private mutating func escape(_ text: inout String.UnicodeScalarView) throws(InputFault) {
    guard let scalar = peek else { throw fault("this text is not closed") }
    index += 1
    switch scalar {
    case "n": text.append("\n")
    case "r": text.append("\r")
    case "t": text.append("\t")
    case "U", "u":
      var unit = try hexadecimal()
      if unit & 0xfc00 == 0xd800, peek == "\\" {
        index += 2
        unit = 0x10000 + (unit & 0x3ff) << 10 + (try hexadecimal()) & 0x3ff
      }
      text.append(Unicode.Scalar(unit) ?? "\u{fffd}")
    default: text.append(scalar)
    }
  }

  private mutating func hexadecimal() throws(InputFault) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let scalar = peek, let digit = Character(scalar).hexDigitValue else {
        throw fault("four hexadecimal digits are missing here")
      }
      unit = unit << 4 | UInt32(digit)
      index += 1
    }
    return unit
  }
}
