package import ApusModel

/// A header field as received, known or not.
package struct HTTP2Field: Sendable, Hashable {
  package var name: String
  package var value: String
}

// Only for the development service, which shows requests and causes faults on demand.

extension HTTP2ServerSession {
  // MARK: What came

  /// All fields of a request in the order received; returns them once, and only if the configuration keeps them.
  package func takeFields(of request: HTTP2Request) -> [HTTP2Field] {
    keptFields.removeValue(forKey: request.streamID) ?? []
  }

  func keep(_ field: borrowing HeaderField, of request: HTTP2Request) {
    let streamID = request.streamID
    if keptFields[streamID] == nil, keptFields.count > 2 * Limits.concurrentStreams {
      // Drops those of requests that never became complete.
      keptFields = keptFields.filter { self.request($0.key) != nil }
    }
    keptFields[streamID, default: []].append(
      HTTP2Field(name: field.name.text, value: field.value.text))
  }

  // MARK: What goes wrong

  /// Responds with any status and body, and a `retry-after` field if seconds are given.
  ///
  /// - Parameter name: Of the field with the id.
  @discardableResult
  package func respond(
    _ request: HTTP2Request, status: UInt16, _ name: HeaderName, id: Span<UInt8>,
    retryAfterSeconds: Int?, body: Span<UInt8>
  ) -> Bool {
    guard request.isOpen else { return false }
    let room = AnswerHeaders.room(ids: 1, valueBytes: id.count)
    sendHeaders(request, room: room, hasBody: !body.isEmpty) { headers in
      headers.add(status: status)
      if !body.isEmpty { headers.addJSONContentType() }
      if !id.isEmpty { headers.add(name, id: id) }
      if let retryAfterSeconds { headers.add(retryAfterSeconds: retryAfterSeconds) }
    }
    answer(request, body: body)
    return true
  }

  /// Ends the request's stream with RST_STREAM instead of a response.
  package func reset(_ request: HTTP2Request, code: HTTP2ErrorCode) {
    guard request.isOpen else { return }
    unsafe output.append(
      FrameType.resetStream, streamID: request.streamID, number: code.rawValue)
    close(request)
  }

  /// Sends GOAWAY with a chosen last stream. Streams above it end; those up to it must still be answered, and new ones
  /// are ignored.
  package func goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8]) {
    guard end.finish() else { return }
    unsafe output.appendGoAway(code, last: lastStreamID, debugData: debugData)
    for request in unsafe streams.requests where request.streamID > lastStreamID { close(request) }
  }
}
