import ApusModel

/// The generation of the first token that an app gets on a device, in `meta`. Missing: 1.
///
/// Key: "first-generation". Value: version (1), generation (2).
package enum FirstGeneration {
  private static let name: StaticString = "first-generation"
  private static let version: UInt8 = 1

  static var key: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(name)
    return bytes
  }

  static func row(_ generation: UInt16) -> (key: [UInt8], value: [UInt8]) {
    var value = [version]
    value.append(bigEndian: generation)
    return (key, value)
  }

  static func decode(_ bytes: Span<UInt8>) throws(RecordError) -> UInt16 {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    let generation: UInt16 = try cursor.integer("generation", in: bytes)
    guard generation > 0 else { throw .malformed(field: "generation") }
    try cursor.end(in: bytes)
    return generation
  }
}

extension StoreReader {
  package func readFirstGeneration() throws(StoreError) -> UInt16 {
    let key = FirstGeneration.key
    guard let value = try get(.meta, key: key.span) else { return 1 }
    do throws(RecordError) { return try FirstGeneration.decode(value.span) } catch {
      throw .corrupted(path: "meta/first-generation", detail: "\(error)")
    }
  }
}
