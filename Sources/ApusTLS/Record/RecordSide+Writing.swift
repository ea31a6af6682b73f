internal import CShims

// Writing: RFC 8446, sections 4.6.3, 5.1 and 6.1.

extension RecordSide {
  func write(_ plaintext: UnsafeRawBufferPointer, _ buffers: TLSBuffers) throws(TLSError) {
    guard phase != .failed else { throw failure }
    guard !isClosed else { throw .notWritable }
    var rest = unsafe plaintext
    while unsafe !rest.isEmpty {
      if owesKeyUpdate || writing.sequence >= Self.recordsPerKey { try updateKeys(buffers) }
      let count = min(rest.count, TLSBuffers.recordBytes)
      let part = unsafe UnsafeRawBufferPointer(rebasing: rest[..<count])
      guard unsafe seal(Content.applicationData, part, buffers) else { throw broken() }
      unsafe rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }

  /// Updates our sending keys. RFC 8446, section 4.6.3.
  ///
  /// - Parameter asksBack: Whether to ask the peer to do the same.
  func updateKeys(_ buffers: TLSBuffers, asksBack: Bool = false) throws(TLSError) {
    // Type, length of three bytes, request_update.
    guard seal(Content.handshake, [24, 0, 0, 1, asksBack ? 1 : 0], buffers),
      unsafe apus_keys_update(&writing, suite.shim)
    else { throw broken() }
    owesKeyUpdate = false
  }

  func close(_ buffers: TLSBuffers) {
    guard phase != .failed, !isClosed else { return }
    isClosed = true
    // Level 1, warning, which RFC 8446, section 6 assigns to close_notify.
    _ = seal(Content.alert, [1, 0], buffers)
  }

  private func broken() -> TLSError {
    phase = .failed
    ending = .fault(.internalError)
    wipe()
    return failure
  }

  func seal(_ type: UInt8, _ content: [UInt8], _ buffers: TLSBuffers) -> Bool {
    unsafe content.withUnsafeBytes { unsafe seal(type, $0, buffers) }
  }

  /// Appends a record: at most 16 KiB of content, no padding.
  func seal(
    _ type: UInt8, _ content: UnsafeRawBufferPointer, _ buffers: TLSBuffers
  ) -> Bool {
    let inner = content.count + 1
    let body = inner + Int(apus_tag_bytes)
    guard let context = unsafe buffers.aeads.context(suite, seals: true),
      let source = content.baseAddress
    else { return false }
    let record = unsafe buffers.reserveOutput(Self.headerBytes + body)
    unsafe record[0] = Content.applicationData
    unsafe record[1] = 3
    unsafe record[2] = 3
    unsafe record[3] = UInt8(truncatingIfNeeded: body >> 8)
    unsafe record[4] = UInt8(truncatingIfNeeded: body)
    let text = unsafe record + Self.headerBytes
    unsafe UnsafeMutableRawPointer(text).copyMemory(from: source, byteCount: content.count)
    unsafe text[content.count] = type
    guard unsafe apus_aead_seal(context, &writing, record, text, inner) else { return false }
    buffers.keepOutput(Self.headerBytes + body)
    return true
  }
}
