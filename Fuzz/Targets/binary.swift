import ApusModel
import ApusWire

// The binary provider interface: the verdict on some bytes holds for all inputs that begin with them, reported ranges
// are correct, and a frame can be written and read again. And the tuples of the feedback service: however a list is
// split, the same tuples result.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let stream = Array(bytes[1...])
  frames(stream, limits: allLimits[Int(first & 3)], part: Int(first >> 2))
  let whole = Feedback(stream, step: max(1, stream.count))
  precondition(whole == Feedback(stream, step: 1 + Int(first >> 2)), "a split changes the tuples")
  whole.check(stream)
  return 0
}

/// The limits that the first byte selects; 0 selects those of listeners.
let allLimits = [
  BinaryFrameLimits(),
  BinaryFrameLimits(skipsUnknownItems: true),
  BinaryFrameLimits(tokenBytes: 1...100, simplePayloadBytes: 256, framedPayloadBytes: 4096),
  BinaryFrameLimits(
    tokenBytes: 0...65_535, simplePayloadBytes: 65_535, framedPayloadBytes: 65_535,
    skipsUnknownItems: true),
]

/// Reads a stream to its end or its first fault.
func frames(_ stream: [UInt8], limits: BinaryFrameLimits, part: Int) {
  var offset = 0
  while offset < stream.count {
    let rest = stream.span.extracting(offset..<stream.count)
    let scan = BinaryFrame.scan(rest, limits: limits)
    beginnings(of: rest, are: scan, limits: limits, part: part)
    guard case .frame(let frame) = scan else { return }
    check(frame, in: Array(stream[offset..<offset + frame.byteCount]), limits)
    offset += frame.byteCount
  }
}

/// Checks incremental scans of a frame: the reported number of bytes is really needed, and a verdict never changes.
func beginnings(
  of bytes: Span<UInt8>, are whole: BinaryScan, limits: BinaryFrameLimits, part: Int
) {
  func scan(_ count: Int) -> BinaryScan {
    BinaryFrame.scan(bytes.extracting(0..<count), limits: limits)
  }
  var count = 1
  while case .incomplete(let needed) = scan(count) {
    precondition(needed > count, "no more bytes are needed")
    let most = min(needed - 1, bytes.count)
    for shorter in [count + (most - count) * part / 64, most] {
      precondition(scan(shorter) == .incomplete(needed: needed), "fewer bytes are enough")
    }
    guard needed <= bytes.count else {
      precondition(whole == .incomplete(needed: needed), "more bytes are needed than reported")
      return
    }
    count = needed
  }
  precondition(scan(count) == whole, "a verdict changes")
  precondition(scan(count + (bytes.count - count) * part / 64) == whole, "a verdict changes")
}

/// `bytes` is exactly one frame.
func check(_ frame: BinaryFrame, in bytes: [UInt8], _ limits: BinaryFrameLimits) {
  let limit =
    frame.command == .framed ? limits.framedPayloadBytes : limits.simplePayloadBytes
  precondition(frame.byteCount <= BinaryFrame.headerBytes + Limits.binaryFrameBytes, "too long")
  precondition(limits.tokenBytes.contains(frame.token.count), "a token has a wrong length")
  precondition(!frame.token.isEmpty && !frame.payload.isEmpty, "an empty token or payload")
  precondition(frame.payload.count <= limit, "a payload is too long")
  precondition(!frame.token.overlaps(frame.payload), "token and payload share bytes")
  let (token, payload) = (bytes[frame.token], bytes[frame.payload])

  var again: [UInt8] = []
  switch frame.command {
  case .simple:
    precondition(frame.identifier == nil && frame.expiration == nil && frame.priority == nil)
    again.append(simple: token.span, payload: payload.span)
    precondition(again == bytes, "a frame of command 0 changes in a round trip")
  case .enhanced:
    guard let identifier = frame.identifier, let expiration = frame.expiration,
      frame.priority == nil
    else { preconditionFailure("command 1 has an identifier and an expiration, no priority") }
    again.append(
      enhanced: token.span, payload: payload.span, identifier: identifier, expiration: expiration)
    precondition(again == bytes, "a frame of command 1 changes in a round trip")
  case .framed:
    again.append(
      framed: token.span, payload: payload.span, identifier: frame.identifier,
      expiration: frame.expiration, priority: frame.priority)
  }
  guard case .frame(let second) = BinaryFrame.scan(again.span, limits: limits),
    second.byteCount == again.count, second.command == frame.command
  else { preconditionFailure("a written frame cannot be read") }
  precondition(again.count <= bytes.count, "a frame grows in a round trip")
  precondition(second.identifier == frame.identifier, "an identifier changes")
  precondition(second.expiration == frame.expiration, "an expiration changes")
  precondition(second.priority == frame.priority, "a priority changes")
  precondition(again[second.token] == token, "a token changes")
  precondition(again[second.payload] == payload, "a payload changes")
}

struct Feedback: Equatable {
  var tuples: [FeedbackTuple] = []
  var fault: FeedbackTupleFault?

  init(_ list: [UInt8], step: Int) {
    var reader = FeedbackTupleReader()
    do throws(FeedbackTupleFault) {
      for start in stride(from: 0, to: list.count, by: step) {
        let part = list.span.extracting(start..<min(start + step, list.count))
        var offset = 0
        while let tuple = try reader.next(part, at: &offset) { tuples.append(tuple) }
        precondition(offset == part.count, "input is left over")
      }
      try reader.finish()
    } catch {
      fault = error
    }
  }

  /// Checks that written tuples equal the read ones.
  func check(_ list: [UInt8]) {
    var again: [UInt8] = []
    for tuple in tuples {
      again.append(feedbackTuple: tuple.token.span, timeSeconds: tuple.timeSeconds)
    }
    precondition(list.starts(with: again), "a tuple changes in a round trip")
    precondition(fault != nil || again.count == list.count, "bytes are lost")
  }
}
