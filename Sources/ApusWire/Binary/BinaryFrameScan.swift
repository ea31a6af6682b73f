internal import ApusModel

// The order of the checks: framing, token (missing, length), payload (missing, length). Token before payload: clients
// send a notification with both lengths 0 to learn that everything before it was processed, and expect "Missing device
// token".

extension BinaryFrame {
  /// Scans the frame at the front of `bytes`, which must not be empty.
  ///
  /// More bytes never change a result. Commands 0 and 1 are judged as early as possible: a bad length as soon as it is
  /// read. Command 2 waits for the whole frame, because most clients put the identifier, which the response contains,
  /// after the payload.
  package static func scan(
    _ bytes: Span<UInt8>, limits: borrowing BinaryFrameLimits
  ) -> BinaryScan {
    switch BinaryCommand(rawValue: bytes[0]) {
    case .framed: return scanFramed(bytes, limits)
    case .simple:
      let header = 3
      guard bytes.count >= header else { return .incomplete(needed: header) }
      return scanPlain(bytes, .simple, header: header, nil, nil, limits)
    case .enhanced:
      let header = 11
      guard bytes.count >= header else { return .incomplete(needed: header) }
      return scanPlain(
        bytes, .enhanced, header: header, bytes.bigEndianUInt32(at: 1),
        bytes.bigEndianUInt32(at: 5), limits)
    case nil: return .fault(.unknownCommand(bytes[0]), command: nil, identifier: nil)
    }
  }

  // MARK: Commands 0 and 1

  /// The `header` bytes are complete; the last two of them are the token's length.
  @inline(__always)
  private static func scanPlain(
    _ bytes: Span<UInt8>, _ command: BinaryCommand, header: Int, _ identifier: UInt32?,
    _ expiration: UInt32?, _ limits: borrowing BinaryFrameLimits
  ) -> BinaryScan {
    let token = header..<header + Int(bytes.bigEndianUInt16(at: header - 2))
    if let fault = fault(token: token, limits) {
      return .fault(fault, command: command, identifier: identifier)
    }
    let start = token.upperBound + 2
    guard bytes.count >= start else { return .incomplete(needed: start) }
    let payload = start..<start + Int(bytes.bigEndianUInt16(at: start - 2))
    if let fault = fault(payload: payload, limit: limits.simplePayloadBytes) {
      return .fault(fault, command: command, identifier: identifier)
    }
    guard bytes.count >= payload.upperBound else {
      return .incomplete(needed: payload.upperBound)
    }
    return .frame(
      BinaryFrame(
        command: command, byteCount: payload.upperBound, token: token, payload: payload,
        identifier: identifier, expiration: expiration, priority: nil))
  }

  // MARK: Command 2

  @inline(__always)
  private static func scanFramed(
    _ bytes: Span<UInt8>, _ limits: borrowing BinaryFrameLimits
  ) -> BinaryScan {
    guard bytes.count >= headerBytes else { return .incomplete(needed: headerBytes) }
    let length = Int(bytes.bigEndianUInt32(at: 1))
    guard length <= Limits.binaryFrameBytes else {
      return .fault(.frameTooLong(byteCount: length), command: .framed, identifier: nil)
    }
    let end = headerBytes + length
    guard bytes.count >= end else { return .incomplete(needed: end) }
    let frame = bytes.extracting(0..<end)
    if let usual = usual(frame, limits) { return .frame(usual) }
    do throws(BinaryFrameFault) {
      return .frame(try BinaryFrame(items: frame, limits))
    } catch {
      return .fault(error, command: .framed, identifier: firstIdentifier(frame))
    }
  }

  /// A valid frame in the usual layout: items 1 to 5 in order. Nil for any other, valid or not. It takes a third of
  /// the instructions.
  @inline(__always)
  private static func usual(
    _ frame: Span<UInt8>, _ limits: borrowing BinaryFrameLimits
  ) -> BinaryFrame? {
    let tokenStart = headerBytes + BinaryItem.headerBytes
    // Items 3, 4 and 5 with their headers.
    let tail = 7 + 7 + 4
    guard frame.count > tokenStart + BinaryItem.headerBytes + tail,
      frame[headerBytes] == BinaryItem.deviceToken.rawValue
    else { return nil }
    let tokenEnd = tokenStart + Int(frame.bigEndianUInt16(at: headerBytes + 1))
    let payloadStart = tokenEnd + BinaryItem.headerBytes
    let payloadEnd = frame.count - tail
    guard payloadStart < payloadEnd, frame[tokenEnd] == BinaryItem.payload.rawValue,
      Int(frame.bigEndianUInt16(at: tokenEnd + 1)) == payloadEnd - payloadStart,
      // 3, length 4 and the first of its bytes; 4, length 4 likewise; 5, length 1, and its byte.
      frame.bigEndianUInt32(at: payloadEnd) >> 8 == 0x03_0004,
      frame.bigEndianUInt32(at: payloadEnd + 7) >> 8 == 0x04_0004,
      frame.bigEndianUInt32(at: payloadEnd + 14) >> 8 == 0x05_0001
    else { return nil }
    let (token, payload) = (tokenStart..<tokenEnd, payloadStart..<payloadEnd)
    guard fault(token: token, limits) == nil,
      fault(payload: payload, limit: limits.framedPayloadBytes) == nil
    else { return nil }
    return BinaryFrame(
      command: .framed, byteCount: frame.count, token: token, payload: payload,
      identifier: frame.bigEndianUInt32(at: payloadEnd + 3),
      expiration: frame.bigEndianUInt32(at: payloadEnd + 10), priority: frame[payloadEnd + 17])
  }

  /// Reads a whole frame.
  private init(
    items bytes: Span<UInt8>, _ limits: borrowing BinaryFrameLimits
  ) throws(BinaryFrameFault) {
    var token: Range<Int>?
    var payload: Range<Int>?
    var identifier: UInt32?
    var expiration: UInt32?
    var priority: UInt8?
    var offset = Self.headerBytes
    while offset < bytes.count {
      let number = bytes[offset]
      guard let value = Self.itemValue(bytes, at: offset) else { throw .itemBeyondFrame }
      offset = value.upperBound
      switch BinaryItem(rawValue: number) {
      case .deviceToken:
        guard token == nil else { throw .repeatedItem(number) }
        token = value
      case .payload:
        guard payload == nil else { throw .repeatedItem(number) }
        payload = value
      case .identifier:
        guard identifier == nil else { throw .repeatedItem(number) }
        try Self.require(4, value, of: number)
        identifier = bytes.bigEndianUInt32(at: value.lowerBound)
      case .expiration:
        guard expiration == nil else { throw .repeatedItem(number) }
        try Self.require(4, value, of: number)
        expiration = bytes.bigEndianUInt32(at: value.lowerBound)
      case .priority:
        guard priority == nil else { throw .repeatedItem(number) }
        try Self.require(1, value, of: number)
        priority = bytes[value.lowerBound]
      case nil: guard limits.skipsUnknownItems else { throw .unknownItem(number) }
      }
    }
    let noBytes = bytes.count..<bytes.count
    let (foundToken, foundPayload) = (token ?? noBytes, payload ?? noBytes)
    if let fault = Self.fault(token: foundToken, limits) { throw fault }
    if let fault = Self.fault(payload: foundPayload, limit: limits.framedPayloadBytes) {
      throw fault
    }
    self.init(
      command: .framed, byteCount: bytes.count, token: foundToken, payload: foundPayload,
      identifier: identifier, expiration: expiration, priority: priority)
  }

  /// The range of the value of the item at `offset`; nil if the item runs past the frame's end.
  @inline(__always)
  private static func itemValue(_ frame: Span<UInt8>, at offset: Int) -> Range<Int>? {
    let start = offset + BinaryItem.headerBytes
    guard start <= frame.count else { return nil }
    let end = start + Int(frame.bigEndianUInt16(at: offset + 1))
    return end <= frame.count ? start..<end : nil
  }

  @inline(__always)
  private static func require(
    _ byteCount: Int, _ value: Range<Int>, of item: UInt8
  ) throws(BinaryFrameFault) {
    guard value.count == byteCount else {
      throw .itemLength(item: item, byteCount: value.count)
    }
  }

  /// The identifier for the response to a bad frame: the first one of the right length before any item that runs past
  /// the frame's end.
  private static func firstIdentifier(_ frame: Span<UInt8>) -> UInt32? {
    var offset = headerBytes
    while offset < frame.count, let value = itemValue(frame, at: offset) {
      if frame[offset] == BinaryItem.identifier.rawValue, value.count == 4 {
        return frame.bigEndianUInt32(at: value.lowerBound)
      }
      offset = value.upperBound
    }
    return nil
  }

  // MARK: Every command

  @inline(__always)
  private static func fault(
    token: Range<Int>, _ limits: borrowing BinaryFrameLimits
  ) -> BinaryFrameFault? {
    guard !token.isEmpty else { return .tokenMissing }
    let allowed = limits.tokenBytes.contains(token.count)
    return allowed ? nil : .tokenLength(byteCount: token.count)
  }

  @inline(__always)
  private static func fault(payload: Range<Int>, limit: Int) -> BinaryFrameFault? {
    guard !payload.isEmpty else { return .payloadMissing }
    return payload.count <= limit ? nil : .payloadTooLong(byteCount: payload.count, limit: limit)
  }
}
