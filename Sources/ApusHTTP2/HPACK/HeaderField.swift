import ApusModel

/// A field as the decoder lends it: good until the next one is decoded.
@safe struct HeaderField {
  /// Nil for a name that the provider API does not know.
  var listed: HeaderName?
  /// Whether its bytes are such as a request may have (`RequestShape.isFine`). Known of a table's entries since they
  /// were made, which saves a look at each byte of what nearly every request repeats.
  var isFine = false
  private let nameBytes: UnsafeBufferPointer<UInt8>
  private let valueBytes: UnsafeBufferPointer<UInt8>

  init() { unsafe self.init(listed: nil, isFine: false, name: Self.none, value: Self.none) }

  /// A field that nobody has judged yet.
  init(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
    let listed = unsafe HeaderName(Span(_unsafeElements: name))
    unsafe self.init(
      listed: listed,
      isFine: RequestShape.isFine(
        listed, name: Span(_unsafeElements: name), value: Span(_unsafeElements: value)),
      name: name, value: value)
  }

  /// A field with a name that was judged already.
  init(
    listed: HeaderName?, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>
  ) {
    unsafe self.init(
      listed: listed,
      isFine: RequestShape.isFine(
        listed, name: Span(_unsafeElements: name), value: Span(_unsafeElements: value)),
      name: name, value: value)
  }

  init(
    listed: HeaderName?, isFine: Bool, name: UnsafeBufferPointer<UInt8>,
    value: UnsafeBufferPointer<UInt8>
  ) {
    self.listed = listed
    self.isFine = isFine
    unsafe nameBytes = name
    unsafe valueBytes = value
  }

  private static var none: UnsafeBufferPointer<UInt8> { unsafe .init(start: nil, count: 0) }

  var unsafeName: UnsafeBufferPointer<UInt8> { unsafe nameBytes }
  var unsafeValue: UnsafeBufferPointer<UInt8> { unsafe valueBytes }

  var name: Span<UInt8> {
    @_lifetime(borrow self)
    get { unsafe _overrideLifetime(Span(_unsafeElements: nameBytes), borrowing: self) }
  }

  var value: Span<UInt8> {
    @_lifetime(borrow self)
    get { unsafe _overrideLifetime(Span(_unsafeElements: valueBytes), borrowing: self) }
  }

  /// RFC 7541, section 4.1; RFC 9113, section 6.5.2.
  var byteCount: Int { unsafe nameBytes.count + valueBytes.count + Self.overheadBytes }

  static let overheadBytes = 32
}
