import ApusModel
import CNGHTTP2

/// The header fields of one response, on their way into nghttp2, which copies the values.
///
/// One block serves all connections of a worker: it is filled and used within one call.
@safe final class HeaderBlock {
  private static let fieldCapacity = 18
  private static let byteCapacity = Limits.headerListBytes + 256

  let fields: UnsafeMutablePointer<nghttp2_nv>
  private(set) var count = 0
  private let bytes: UnsafeMutablePointer<UInt8>
  private var used = 0

  init() {
    unsafe fields = .allocate(capacity: Self.fieldCapacity)
    unsafe bytes = .allocate(capacity: Self.byteCapacity)
  }

  deinit {
    unsafe fields.deallocate()
    unsafe bytes.deallocate()
  }

  func removeAll() {
    count = 0
    used = 0
  }

  /// Adds a field. An `indexed` field may enter the compression table; ids, which never repeat, would only evict
  /// others from it.
  func add(_ name: HeaderName, value: Span<UInt8>, indexed: Bool = true) {
    let start = unsafe copy(value)
    unsafe append(name, start, value.count, indexed: indexed)
  }

  /// Adds a field with a constant value.
  func add(_ name: HeaderName, text: StaticString, indexed: Bool = true) {
    unsafe append(
      name, UnsafeMutablePointer(mutating: text.utf8Start), text.utf8CodeUnitCount,
      indexed: indexed)
  }

  private func copy(_ value: Span<UInt8>) -> UnsafeMutablePointer<UInt8> {
    precondition(used + value.count <= Self.byteCapacity, "header list too long")
    let start = unsafe bytes + used
    unsafe value.withUnsafeBufferPointer { source in
      if let base = source.baseAddress {
        unsafe start.update(from: base, count: source.count)
      }
    }
    used += value.count
    return unsafe start
  }

  /// Adds `:status`.
  func add(status: UInt16) {
    let start = unsafe bytes + used
    unsafe start[0] = 0x30 + UInt8(status / 100 % 10)
    unsafe start[1] = 0x30 + UInt8(status / 10 % 10)
    unsafe start[2] = 0x30 + UInt8(status % 10)
    used += 3
    unsafe append(.status, start, 3, indexed: true)
  }

  /// Adds a field that is not in ``HeaderName``.
  func add(named name: StaticString, value: Span<UInt8>) {
    let start = unsafe copy(value)
    unsafe append(name, start, value.count, indexed: true)
  }

  func addJSONContentType() {
    add(.contentType, text: "application/json")
  }

  private func append(
    _ name: HeaderName, _ value: UnsafeMutablePointer<UInt8>, _ valueCount: Int, indexed: Bool
  ) {
    unsafe append(name.text, value, valueCount, indexed: indexed)
  }

  private func append(
    _ text: StaticString, _ value: UnsafeMutablePointer<UInt8>, _ valueCount: Int, indexed: Bool
  ) {
    var flags = UInt8(truncatingIfNeeded: NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)
    if !indexed { flags |= UInt8(truncatingIfNeeded: NGHTTP2_NV_FLAG_NO_INDEX.rawValue) }
    unsafe fields[count] = nghttp2_nv(
      name: UnsafeMutablePointer(mutating: text.utf8Start), value: value,
      namelen: text.utf8CodeUnitCount, valuelen: valueCount, flags: flags)
    count += 1
  }
}
