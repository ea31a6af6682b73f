import ApusModel

/// The static table of RFC 7541, appendix A.
@safe struct StaticTable: @unchecked Sendable {
  static let shared = StaticTable()
  static let count = 61

  /// From index 1 on, as in the RFC.
  private let fields: UnsafeMutablePointer<HeaderField>

  private init() {
    unsafe fields = .allocate(capacity: Self.count + 1)
    unsafe fields.initialize(repeating: HeaderField(), count: Self.count + 1)
    for (place, entry) in Self.entries.enumerated() {
      let name = unsafe UnsafeBufferPointer(
        start: entry.name.utf8Start, count: entry.name.utf8CodeUnitCount)
      let value = unsafe UnsafeBufferPointer(
        start: entry.value.utf8Start, count: entry.value.utf8CodeUnitCount)
      unsafe fields[place + 1] = HeaderField(name: name, value: value)
    }
  }

  /// The field at an index from 1 to `count`.
  subscript(index: Int) -> HeaderField { unsafe fields[index] }

  private static let entries: [(name: StaticString, value: StaticString)] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
  ]
}
