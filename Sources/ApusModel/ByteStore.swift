/// A reusable byte buffer: its content can be replaced without releasing the memory.
public struct ByteStore: Sendable {
  @usableFromInline var bytes: [UInt8]
  @usableFromInline var used = 0

  public init(capacity: Int) { bytes = [UInt8](repeating: 0, count: capacity) }

  /// Bytes in use.
  @inlinable public var count: Int { used }

  /// Bytes of memory allocated.
  @inlinable public var capacity: Int { bytes.count }

  /// The bytes in use.
  public var span: Span<UInt8> {
    @inlinable
    @_lifetime(borrow self)
    get { bytes.span.extracting(0..<used) }
  }

  public var isEmpty: Bool { count == 0 }

  /// Replaces the content with `source`; grows when there is no room.
  @inlinable
  public mutating func set(_ source: Span<UInt8>) {
    used = 0
    append(source)
  }

  /// Appends `source`; when there is no room, grows to at least twice the size.
  @inlinable
  public mutating func append(_ source: Span<UInt8>) {
    if source.count > bytes.count - count { grow(to: count + source.count) }
    bytes.write(source, at: count)
    used += source.count
  }

  @inlinable
  public mutating func removeAll() { used = 0 }

  /// Whether both hold the same bytes.
  public func equals(_ other: ByteStore) -> Bool {
    guard count == other.count else { return false }
    let (left, right) = (span, other.span)
    for index in 0..<count where left[index] != right[index] { return false }
    return true
  }

  @usableFromInline
  mutating func grow(to needed: Int) {
    var larger = [UInt8](repeating: 0, count: max(needed, 2 * bytes.count))
    larger.write(span, at: 0)
    bytes = larger
  }
}
