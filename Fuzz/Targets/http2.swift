import ApusModel

@testable import ApusHTTP2

// Frames of a client that ignores all rules. The first byte selects how the stream is split, and whether the preface
// and a first SETTINGS frame are sent for the client; the rest is the client's bytes.
//
// However the stream is split, the same requests and the same sent bytes result, unless a flood ends it early. Sent are
// whole frames, with one GOAWAY after an error, and every request returns to its pool.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let begins = first & 0x80 == 0
  let whole = Talk(begins, Array(bytes[1...]), cut: .max)
  let cut = Talk(begins, Array(bytes[1...]), cut: 1 + Int(first & 0x7f))
  if !whole.isFlood, !cut.isFlood {
    precondition(whole.requests == cut.requests, "a split changes the requests")
    precondition(whole.sent == cut.sent, "a split changes the sent bytes")
  }
  return 0
}

private struct Talk {
  var requests: [[UInt8]] = []
  var sent: [UInt8] = []
  var isFlood = false

  /// The preface, SETTINGS, and an acknowledgement of ours.
  private static let beginning =
    Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    + [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]

  init(_ begins: Bool, _ bytes: [UInt8], cut: Int) {
    let pool = HTTP2RequestPool()
    do {
      let session = HTTP2ServerSession(configuration: .trusted, pool: pool, nowMilliseconds: 0)
      var rest = ((begins ? Self.beginning : []) + bytes)[...]
      var held: [HTTP2Request] = []
      while !rest.isEmpty, !session.hasFailed {
        let part = Array(rest.prefix(cut))
        rest = rest.dropFirst(part.count)
        _ = session.receive(part.span, nowMilliseconds: 0)
        while let request = session.nextRequest() { held.append(request) }
      }
      // Answered at the end, so that responses do not depend on the split; and only requests that were not cancelled.
      for (place, request) in held.filter(\.isOpen).enumerated() {
        requests.append(
          request.value(.path).copied() + [0] + request.value(.apnsTopic).copied() + [0]
            + request.bodyBytes.copied())
        if place % 3 > 0 {
          session.respond(
            request, status: place % 3 == 1 ? 200 : 400, apnsID: request.value(.apnsID),
            apnsUniqueID: Span(), body: place % 3 == 1 ? Span() : request.bodyBytes)
        }
      }
      for request in held { session.release(request) }
      while session.wantsWrite { session.pendingOutput(into: &sent, limit: sent.count + 100) }
      check(session)
    }
    precondition(pool.openCount == 0, "a request is lost")
  }

  private mutating func check(_ session: HTTP2ServerSession) {
    var offset = 0
    var lastType: UInt8 = 0
    while offset < sent.count {
      precondition(offset + 9 <= sent.count, "half a frame")
      let length = Int(sent[offset]) << 16 | Int(sent[offset + 1]) << 8 | Int(sent[offset + 2])
      lastType = sent[offset + 3]
      // 0xb: ENHANCE_YOUR_CALM; 7: too many streams.
      if lastType == 7, [7, 0xb].contains(sent[offset + 16]) { isFlood = true }
      offset += 9 + length
    }
    precondition(offset == sent.count, "half a frame")
    if session.hasFailed, requests.isEmpty { precondition(lastType == 7, "no GOAWAY at the end") }
  }
}
