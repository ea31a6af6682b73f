import ApusModel

/// A decoded field, valid until the next one is decoded.
@safe struct HeaderField {
  /// Nil for a name unknown to the provider API.
  var listed: HeaderName?
  /// Whether a message may contain its bytes (`FieldRules.isFine`). Stored with table entries when they are made, so
  /// the bytes of fields that nearly every request repeats are not checked again.
  var isFine = false
  private let nameBytes: UnsafeBufferPointer<UInt8>
  private let valueBytes: UnsafeBufferPointer<UInt8>

  init() { unsafe self.init(listed: nil, isFine: false, name: Self.none, value: Self.none) }

  /// A field that has not been checked yet.
  init(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
    let listed = unsafe HeaderName(Span(_unsafeElements: name))
    unsafe self.init(
      listed: listed,
      isFine: FieldRules.isFine(
        listed, name: Span(_unsafeElements: name), value: Span(_unsafeElements: value)),
      name: name, value: value)
  }

  /// A field whose name was already checked.
  init(
    listed: HeaderName?, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>
  ) {
    unsafe self.init(
      listed: listed,
      isFine: FieldRules.isFine(
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
