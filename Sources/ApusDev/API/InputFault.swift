import ApusWire

/// A step from a JSON value into it.
package enum JSONStep: Sendable, Hashable {
  case key(String)
  case index(Int)
}

/// A fault in a text that a person or a test wrote, with its position.
package struct InputFault: Error, Sendable, Hashable, CustomStringConvertible {
  package var message: String
  /// The path from the outermost value to the fault.
  package var place: [JSONStep]
  /// The byte offset in a text that is not JSON; nil if `place` locates the fault.
  package var offset: Int?

  package init(_ message: String, at place: [JSONStep] = [], offset: Int? = nil) {
    self.message = message
    self.place = place
    self.offset = offset
  }

  /// Such as `rules[2].match.topic`; nil for the whole text.
  package var field: String? {
    guard !place.isEmpty else { return nil }
    return place.reduce(into: "") { text, step in
      switch step {
      case .key(let key): text += text.isEmpty ? key : ".\(key)"
      case .index(let index): text += "[\(index)]"
      }
    }
  }

  package var description: String { field.map { "\($0): \(message)" } ?? message }

  /// The same fault, inside another value.
  func below(_ outer: [JSONStep]) -> InputFault {
    InputFault(message, at: outer + place, offset: offset)
  }

  /// Line and column in the text, both counted from 1.
  package func position(in text: [UInt8]) -> (line: Int, column: Int)? {
    guard let offset = offset ?? JSONLocator.offset(of: place, in: text) else { return nil }
    return TextPosition.of(offset, in: text)
  }
}

/// Lines and columns of a text.
enum TextPosition {
  /// Both counted from 1; a column is a UTF-8 character.
  static func of(_ offset: Int, in text: [UInt8]) -> (line: Int, column: Int) {
    let before = text.prefix(max(0, min(offset, text.count)))
    let line = before.reduce(1) { $1 == 0x0a ? $0 + 1 : $0 }
    let start = before.lastIndex(of: 0x0a).map { $0 + 1 } ?? 0
    // UTF-8 continuation bytes begin with the bits 10.
    let column = before[start...].reduce(1) { $1 & 0xc0 == 0x80 ? $0 : $0 + 1 }
    return (line, column)
  }
}

/// Parses JSON; its faults have an offset.
enum JSONText {
  static func parse(_ bytes: [UInt8]) throws(InputFault) -> JSONValue {
    do throws(JSONFault) {
      return try JSONValue(parsing: bytes.span)
    } catch {
      throw InputFault("this is not JSON: \(error)", offset: offset(of: error, bytes.count))
    }
  }

  private static func offset(of fault: JSONFault, _ count: Int) -> Int {
    switch fault {
    case .empty, .notObject: 0
    case .truncated: count
    case .badToken(let offset), .badUTF8(let offset), .tooDeep(let offset),
      .trailingBytes(let offset):
      offset
    }
  }
}

/// Finds the position of a value in a JSON text.
enum JSONLocator {
  /// The offset of the key or element of the last step; nil if it does not exist. `text` is valid JSON.
  static func offset(of place: [JSONStep], in text: [UInt8]) -> Int? {
    var walk = Walk(text: text)
    var found: Int? = place.isEmpty ? 0 : nil
    for step in place {
      walk.skipSpace()
      guard let offset = walk.enter(step) else { return found }
      found = offset
    }
    return found
  }

  private struct Walk {
    let text: [UInt8]
    var offset = 0

    private var byte: UInt8 { offset < text.count ? text[offset] : 0 }

    mutating func skipSpace() {
      while [0x20, 0x09, 0x0a, 0x0d].contains(byte) { offset += 1 }
    }

    /// Moves to the value of a step, and returns the offset of its key or element.
    mutating func enter(_ step: JSONStep) -> Int? {
      switch step {
      case .key(let name): return byte == 0x7b ? enter(key: name) : nil
      case .index(let index): return byte == 0x5b ? enter(index: index) : nil
      }
    }

    private mutating func enter(key name: String) -> Int? {
      offset += 1
      var found: (key: Int, value: Int)?
      while true {
        skipSpace()
        guard byte == 0x22 else { break }
        let start = offset
        skipString()
        let key = text[start..<offset]
        skipSpace()
        offset += 1
        skipSpace()
        if Self.spells(Array(key), name) { found = (start, offset) }
        skipValue()
        skipSpace()
        guard byte == 0x2c else { break }
        offset += 1
      }
      guard let found else { return nil }
      offset = found.value
      return found.key
    }

    private static func spells(_ quoted: [UInt8], _ name: String) -> Bool {
      (try? JSONValue(parsing: quoted.span))?.string == name
    }

    private mutating func enter(index: Int) -> Int? {
      offset += 1
      for number in 0... {
        skipSpace()
        guard offset < text.count, byte != 0x5d else { return nil }
        if number == index { return offset }
        skipValue()
        skipSpace()
        guard byte == 0x2c else { return nil }
        offset += 1
      }
      return nil
    }

    private mutating func skipString() {
      offset += 1
      while offset < text.count, byte != 0x22 { offset += byte == 0x5c ? 2 : 1 }
      offset += 1
    }

    /// Skips a value: matching brackets, or everything up to a character that can follow a value.
    private mutating func skipValue() {
      var depth = 0
      repeat {
        switch byte {
        case 0x22: skipString()
        case 0x7b, 0x5b:
          depth += 1
          offset += 1
        case 0x7d, 0x5d:
          guard depth > 0 else { return }
          depth -= 1
          offset += 1
        case 0x2c where depth == 0: return
        default: offset += 1
        }
      } while offset < text.count && (depth > 0 || !endsValue)
    }

    private var endsValue: Bool { [0x2c, 0x7d, 0x5d, 0x20, 0x09, 0x0a, 0x0d].contains(byte) }
  }
}
