/// What operators call a device, and by what they group it. Neither means anything to the service itself.
package struct DeviceLabels: Sendable, Hashable {
  /// Of no other device; nil for a device without a name.
  package var name: DeviceName?
  /// Sorted, at most `Limits.tagsPerDevice`, and one for each key.
  package private(set) var tags: [DeviceTag] = []

  package init(name: DeviceName? = nil) { self.name = name }

  /// Nil if there are more than `Limits.tagsPerDevice`.
  package init?(name: DeviceName?, tags: [DeviceTag]) {
    self.name = name
    for tag in tags { guard set(tag) else { return nil } }
  }

  package var isEmpty: Bool { name == nil && tags.isEmpty }

  /// Whether the name or a tag has a text as a part, which is in lower case.
  package func contains(lowercased text: String) -> Bool {
    name?.text.lowercased().contains(text) == true
      || tags.contains { $0.text.lowercased().contains(text) }
  }

  /// In one line, for people.
  package var text: String {
    "\(name.map { "name \"\($0.text)\"" } ?? "no name"), "
      + (tags.isEmpty ? "no tags" : "tags \(tags.map(\.text).joined(separator: " "))")
  }

  /// Adds a tag, in place of another value of its key. False if the device has too many already.
  package mutating func set(_ tag: DeviceTag) -> Bool {
    remove(key: tag.key)
    guard tags.count < Limits.tagsPerDevice else { return false }
    tags.insert(tag, at: tags.firstIndex { tag < $0 } ?? tags.endIndex)
    return true
  }

  package mutating func remove(key: Substring) { tags.removeAll { $0.key == key } }
}

/// The name of a device: at most `Limits.deviceNameBytes` of UTF-8 without control and format characters, spaces at its
/// ends, or the form of a device's id.
package struct DeviceName: Sendable, Hashable {
  package let text: String

  /// Nil if it is not a name.
  package init?(_ text: String) {
    guard 1...Limits.deviceNameBytes ~= text.utf8.count, DeviceID(text: text) == nil,
      text.first != " ", text.last != " ", text.unicodeScalars.allSatisfy(Self.mayContain)
    else { return nil }
    self.text = text
  }

  package static let form =
    "1 to \(Limits.deviceNameBytes) bytes of text in one line, and not 16 hexadecimal digits"

  /// What the certificate of a device without a name has in its place.
  package static let unnamed = "device"

  /// Whether names, here and in certificates, may have the character.
  package static func mayContain(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse,
      .unassigned:
      false
    default: true
    }
  }

  /// The name with a number behind it, shortened where it is too long for that.
  package func numbered(_ number: Int) -> DeviceName {
    let ending = "-\(number)"
    var text = self.text
    while text.utf8.count + ending.utf8.count > Limits.deviceNameBytes { text.removeLast() }
    guard let name = DeviceName(text + ending) else { preconditionFailure("a name with a number") }
    return name
  }
}

/// A tag of a device: `KEY=VALUE`, or a key alone. Letters, digits, dots, hyphens and underscores; in the value colons,
/// slashes, plus signs and at signs as well; at most `Limits.deviceTagBytes`.
package struct DeviceTag: Sendable, Hashable, Comparable {
  package let text: String

  /// Nil if it is not a tag.
  package init?(_ text: String) {
    let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard text.utf8.count <= Limits.deviceTagBytes, !sides[0].isEmpty,
      sides[0].utf8.allSatisfy({ Self.isPlain($0) }),
      sides.count == 1 || !sides[1].isEmpty && sides[1].utf8.allSatisfy(Self.mayBeInValue)
    else { return nil }
    self.text = text
  }

  package static let form =
    "KEY=VALUE or KEY, of letters, digits and . _ - (: / + @ in the value), "
    + "at most \(Limits.deviceTagBytes) bytes"

  package var key: Substring { text.prefix { $0 != "=" } }

  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f: true
    default: false
    }
  }

  private static func mayBeInValue(_ byte: UInt8) -> Bool {
    switch byte {
    // + / : @
    case 0x2b, 0x2f, 0x3a, 0x40: true
    default: isPlain(byte)
    }
  }

  package static func < (left: DeviceTag, right: DeviceTag) -> Bool { left.text < right.text }
}
