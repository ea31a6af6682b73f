internal import ApusModel

// tuple = time:u32 length:u16 token
// Tuples follow each other with nothing between them; the end of the connection is the end of the list.

/// A dead device token, as the feedback service reports it.
///
/// Source: "Binary Provider API", "The Feedback Service".
package struct FeedbackTuple: Sendable, Hashable {
  /// Bytes before the token.
  package static let headerBytes = 6

  /// Seconds since 1970 at which the service found that the app was removed. A provider compares this with the token's
  /// last registration.
  package var timeSeconds: UInt32
  /// 1 to `Limits.deviceTokenBytes` bytes.
  package var token: [UInt8]

  package init(timeSeconds: UInt32, token: [UInt8]) {
    self.timeSeconds = timeSeconds
    self.token = token
  }
}

extension [UInt8] {
  /// Appends a tuple of the feedback service, whose time is in seconds since 1970.
  ///
  /// - Precondition: `token` has 1 to `Limits.deviceTokenBytes` bytes. With length 0, clients that use the length
  ///   hang.
  package mutating func append(feedbackTuple token: Span<UInt8>, timeSeconds: UInt32) {
    precondition(
      (1...Limits.deviceTokenBytes).contains(token.count), "a token has 1 to 100 bytes")
    append(addingCapacity: FeedbackTuple.headerBytes + token.count) { output in
      output.append(bigEndian: timeSeconds)
      output.append(measured: token)
    }
  }
}

/// Why bytes are not a list of the feedback service. Tuples read before them are valid.
package enum FeedbackTupleFault: Error, Sendable, Hashable {
  /// A token of length 0, or of more than `Limits.deviceTokenBytes`.
  case tokenLength(byteCount: Int)
  /// The list ended this many bytes into a tuple.
  case truncated(byteCount: Int)
}

extension FeedbackTupleFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tokenLength(let byteCount):
      "a token of \(byteCount) bytes, not of 1 to \(Limits.deviceTokenBytes)"
    case .truncated(let byteCount): "the list ends \(byteCount) bytes into a tuple"
    }
  }
}

/// Splits a stream from the feedback service into tuples, whatever its chunks.
package struct FeedbackTupleReader: Sendable {
  /// The bytes of the next tuple so far: never more than the longest has.
  private var partial: [UInt8] = []

  package init() {}

  /// The next tuple of `input` from `offset` on; moves `offset` past it. Nil once the whole input is consumed and more
  /// is needed. After a fault the reader repeats that fault.
  package mutating func next(
    _ input: Span<UInt8>, at offset: inout Int
  ) throws(FeedbackTupleFault) -> FeedbackTuple? {
    let header = FeedbackTuple.headerBytes
    take(upTo: header, input, &offset)
    guard partial.count >= header else { return nil }
    let length = Int(partial.span.bigEndianUInt16(at: 4))
    guard (1...Limits.deviceTokenBytes).contains(length) else {
      throw .tokenLength(byteCount: length)
    }
    take(upTo: header + length, input, &offset)
    guard partial.count == header + length else { return nil }
    defer { partial.removeAll(keepingCapacity: true) }
    return FeedbackTuple(
      timeSeconds: partial.span.bigEndianUInt32(at: 0), token: Array(partial[header...]))
  }

  /// Call it at the end of the connection: the list is complete unless a tuple has begun.
  package func finish() throws(FeedbackTupleFault) {
    guard partial.isEmpty else { throw .truncated(byteCount: partial.count) }
  }

  private mutating func take(upTo count: Int, _ input: Span<UInt8>, _ offset: inout Int) {
    let missing = max(0, count - partial.count)
    let part = input.extracting(offset...).extracting(first: missing)
    partial.append(part)
    offset += part.count
  }
}
