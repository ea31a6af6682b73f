extension StoreReader {
  /// Reads all rows of `meta` whose keys begin with `prefix`; `name` is for the message about an unreadable one.
  func metaRecords<Record>(
    _ name: String, prefix: [UInt8],
    _ decode: (_ key: Span<UInt8>, _ value: Span<UInt8>) throws(RecordError) -> Record
  ) throws(StoreError) -> [Record] {
    var found: [Record] = []
    var fault: RecordError?
    try scan(.meta, prefix: prefix.span) { key, value in
      do throws(RecordError) {
        found.append(try decode(key, value))
      } catch {
        fault = error
      }
      return fault == nil
    }
    if let fault { throw .corrupted(path: "meta/\(name)", detail: "\(fault)") }
    return found
  }
}
