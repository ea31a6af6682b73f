import ApusModel
import CNGHTTP2

/// A header field as it came, listed or not.
package struct HTTP2Field: Sendable, Hashable {
  package var name: String
  package var value: String
}

// What only a stand-in for APNs does: it shows what came, and goes wrong when it is told to.

extension HTTP2ServerSession {
  // MARK: What came

  /// All fields of a request in the order in which they came, once; none unless the configuration keeps them.
  package func takeFields(of request: HTTP2Request) -> [HTTP2Field] {
    keptFields.removeValue(forKey: request.streamID) ?? []
  }

  func keep(name: Span<UInt8>, value: Span<UInt8>, streamID: Int32) {
    if keptFields[streamID] == nil, keptFields.count > 2 * Limits.concurrentStreams {
      // Those of requests that never became whole.
      keptFields = keptFields.filter { request($0.key) != nil }
    }
    keptFields[streamID, default: []].append(
      HTTP2Field(name: name.text, value: value.text))
  }

  // MARK: What goes wrong

  /// Answers with any status and body, and a `retry-after` field where seconds are given.
  @discardableResult
  package func respond(
    _ request: HTTP2Request, status: UInt16, apnsID: Span<UInt8>, retryAfterSeconds: Int?,
    body: Span<UInt8>
  ) -> Bool {
    guard request.isOpen else { return false }
    let block = pool.block
    begin(block, status: status, hasBody: !body.isEmpty)
    if !apnsID.isEmpty { block.add(.apnsID, value: apnsID, indexed: false) }
    if let retryAfterSeconds {
      let digits = Array(String(retryAfterSeconds).utf8)
      block.add(named: "retry-after", value: digits.span)
    }
    return submit(request, block, body: body)
  }

  /// Ends the request's stream with RST_STREAM in place of an answer.
  package func reset(_ request: HTTP2Request, code: HTTP2ErrorCode) {
    guard request.isOpen else { return }
    // The stream's end comes back as with any other.
    unsafe nghttp2_submit_rst_stream(handle, 0, request.streamID, code.rawValue)
  }

  /// GOAWAY with a last stream of the caller's choice. Streams above it end when it leaves; those up to it are still to
  /// be answered, and new ones are refused.
  package func goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8]) {
    guard !isGoAwayFinal, !hasFailed else { return }
    isGoAwayFinal = true
    submitGoAway(code, last: lastStreamID, debugData: debugData)
  }
}
