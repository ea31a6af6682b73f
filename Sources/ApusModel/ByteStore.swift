/// Bytes with room to spare: written over again and again without giving the memory back.
public struct ByteStore: Sendable {
  private var bytes: [UInt8]
  /// Bytes in use.
  public private(set) var count = 0

  public init(capacity: Int) { bytes = [UInt8](repeating: 0, count: capacity) }

  /// The bytes in use.
  public var span: Span<UInt8> {
    @_lifetime(borrow self)
    get { bytes.span.extracting(0..<count) }
  }

  public var isEmpty: Bool { count == 0 }

  /// Puts `source` in place of what was there; grows when there is no room.
  public mutating func set(_ source: Span<UInt8>) {
    count = 0
    append(source)
  }

  /// Adds `source` at the end; grows when there is no room, to at least twice the size.
  public mutating func append(_ source: Span<UInt8>) {
    if count + source.count > bytes.count { grow(to: count + source.count) }
    bytes.write(source, at: count)
    count += source.count
  }

  public mutating func removeAll() { count = 0 }

  private mutating func grow(to needed: Int) {
    let size = max(needed, 2 * bytes.count)
    bytes.append(contentsOf: repeatElement(0, count: size - bytes.count))
  }
}
