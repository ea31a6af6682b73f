import ApusModel

@testable import ApusHTTP2

// Frames of a server that ignores all rules. The first byte selects how the stream is split, and whether a first
// SETTINGS frame is sent for the server; the second one how many requests are open, and the window for their bodies.
// The rest is the server's bytes.
//
// However the stream is split, every request has exactly one outcome, the same one, and the same bytes are sent: whole
// frames, with one GOAWAY after an error.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard bytes.count >= 2 else { return 0 }
  let whole = Talk(bytes, cut: .max)
  let cut = Talk(bytes, cut: 1 + Int(bytes[0] & 0x7f))
  precondition(whole.outcomes == cut.outcomes, "a split changes the outcomes")
  precondition(whole.sent == cut.sent, "a split changes the sent bytes")
  return 0
}

private struct Talk {
  var outcomes: [Int32: [UInt8]] = [:]
  var sent: [UInt8] = []

  init(_ bytes: [UInt8], cut: Int) {
    let session = HTTP2ClientSession()
    var requestCount = 0
    if bytes[0] & 0x80 == 0 {
      // SETTINGS_INITIAL_WINDOW_SIZE, and an acknowledgement of ours.
      let settings: [UInt8] = [
        0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, bytes[1], 0, 0, 0, 4, 1, 0, 0, 0, 0,
      ]
      precondition(session.receive(settings.span) == .ok)
      for _ in 0...bytes[1] & 7 { requestCount += Self.submit(to: session) ? 1 : 0 }
    }
    takeOutput(session)
    var rest = bytes[2...]
    while !rest.isEmpty, !session.hasFailed {
      let part = Array(rest.prefix(cut))
      rest = rest.dropFirst(part.count)
      _ = session.receive(part.span)
      takeOutcomes(session)
    }
    let hasFailed = session.hasFailed
    takeOutput(session)
    check(hasFailed)
    session.connectionLost()
    takeOutcomes(session)
    precondition(outcomes.count == requestCount, "a request without an outcome")
    precondition(session.openStreamCount == 0)
  }

  private static func submit(to session: HTTP2ClientSession) -> Bool {
    var fields = HTTP2FieldList()
    fields.add(.path, "/3/device/aabb")
    fields.add(.apnsTopic, "com.example")
    return session.submit(fields, body: [UInt8](repeating: 0x20, count: 100), tag: 0) != nil
  }

  private mutating func takeOutput(_ session: HTTP2ClientSession) {
    while session.wantsWrite { session.pendingOutput(into: &sent, limit: sent.count + 1000) }
  }

  private mutating func takeOutcomes(_ session: HTTP2ClientSession) {
    while let response = session.nextResponse() {
      let text = response.failure.map { Array("\($0)".utf8) } ?? []
      let body = response.body
      let outcome = text + Array("\(response.status) ".utf8) + body.span.copied()
      precondition(outcomes.updateValue(outcome, forKey: response.streamID) == nil, "two outcomes")
      session.release(response)
    }
  }

  /// After the preface.
  private func check(_ hasFailed: Bool) {
    var offset = 24
    var lastType: UInt8 = 0
    while offset < sent.count {
      precondition(offset + 9 <= sent.count, "half a frame")
      let length = Int(sent[offset]) << 16 | Int(sent[offset + 1]) << 8 | Int(sent[offset + 2])
      lastType = sent[offset + 3]
      offset += 9 + length
    }
    precondition(offset == sent.count, "half a frame")
    precondition(!hasFailed || lastType == 7, "no GOAWAY at the end")
  }
}
