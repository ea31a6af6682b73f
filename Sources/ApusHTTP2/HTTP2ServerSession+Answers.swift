package import ApusModel
import CNGHTTP2

extension HTTP2ServerSession {
  /// Answers a device request.
  ///
  /// Without a body: one HEADERS frame that ends the stream. With one: HEADERS with the JSON content type, and the body
  /// in one DATA frame that ends the stream (several only where the client's window is smaller than the body). Empty
  /// values are left out. The bytes are copied.
  ///
  /// Returns false, and sends nothing, when the stream is gone: the client took the request back.
  @discardableResult
  package func respond(
    streamID: Int32, status: UInt16, apnsID: Span<UInt8>, apnsUniqueID: Span<UInt8>,
    body: Span<UInt8>
  ) -> Bool {
    guard let request = request(streamID) else { return false }
    return respond(
      request, status: status, apnsID: apnsID, apnsUniqueID: apnsUniqueID, body: body)
  }

  /// The same for a request that has not been given back: saves nghttp2 looking the stream up.
  @discardableResult
  package func respond(
    _ request: HTTP2Request, status: UInt16, apnsID: Span<UInt8>, apnsUniqueID: Span<UInt8>,
    body: Span<UInt8>
  ) -> Bool {
    guard request.isOpen else { return false }
    let block = pool.block
    begin(block, status: status, hasBody: !body.isEmpty)
    if !apnsID.isEmpty { block.add(.apnsID, value: apnsID, indexed: false) }
    if !apnsUniqueID.isEmpty { block.add(.apnsUniqueID, value: apnsUniqueID, indexed: false) }
    return submit(request, block, body: body)
  }

  /// Answers with any of the listed fields of answers: those of channel requests, mainly.
  @discardableResult
  package func respond(
    streamID: Int32, status: UInt16, fields: borrowing RequestFields, body: Span<UInt8>
  ) -> Bool {
    guard let request = request(streamID), !request.state.contains(.answered) else { return false }
    let block = pool.block
    begin(block, status: status, hasBody: !body.isEmpty)
    for name in [.apnsID, .apnsUniqueID, .apnsRequestID, .apnsChannelID] as [HeaderName]
    where fields.contains(name) {
      block.add(name, value: fields.value(name), indexed: false)
    }
    return submit(request, block, body: body)
  }

  func begin(_ block: HeaderBlock, status: UInt16, hasBody: Bool) {
    block.removeAll()
    block.add(status: status)
    if hasBody { block.addJSONContentType() }
  }

  func submit(_ request: HTTP2Request, _ block: HeaderBlock, body: Span<UInt8>) -> Bool {
    let status: Int32
    if body.isEmpty || isHead(request) {
      status = unsafe nghttp2_submit_response(
        handle, request.streamID, block.fields, block.count, nil)
    } else {
      request.answer.set(body)
      request.answerOffset = 0
      var provider = unsafe nghttp2_data_provider()
      unsafe provider.read_callback = ServerCallbacks.readAnswer
      status = unsafe nghttp2_submit_response(
        handle, request.streamID, block.fields, block.count, &provider)
    }
    guard status == 0 else { return false }
    request.answeredMilliseconds = nowMilliseconds
    if request.state.contains(.ended) {
      request.state.insert(.answered)
    } else {
      request.state.formUnion([.answered, .answeredEarly])
      earlyAnswerCount += 1
    }
    arm(nowMilliseconds + Self.stallMilliseconds)
    return true
  }

  /// RFC 9110, section 9.3.2: an answer to HEAD has no content.
  private func isHead(_ request: HTTP2Request) -> Bool {
    request.value(.method).equals("HEAD")
  }

  // MARK: Output

  /// Whether there is something to write.
  package var wantsWrite: Bool {
    unsafe !carry.isEmpty || nghttp2_session_want_write(handle) != 0
  }

  /// Appends what is to be sent to `buffer`, up to a length of `limit` bytes in all (at least 64); the rest waits for
  /// the next call. With `limit` 16384 and an empty buffer each call fills one TLS record.
  package func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    while buffer.count < limit {
      if unsafe carry.isEmpty {
        var start: UnsafePointer<UInt8>?
        let count = unsafe nghttp2_session_mem_send(handle, &start)
        guard count > 0, let start = unsafe start else {
          if count < 0 { hasFailed = true }
          return
        }
        if unsafe start[3] == SettingsFrame.type && start[4] & SettingsFrame.acknowledge == 0 {
          appendSettings(to: &buffer)
          continue
        }
        unsafe carry = UnsafeBufferPointer(start: start, count: count)
      }
      let count = unsafe min(limit - buffer.count, carry.count)
      unsafe buffer.append(contentsOf: carry.prefix(count))
      unsafe carry = UnsafeBufferPointer(rebasing: carry.dropFirst(count))
    }
  }

  private func appendSettings(to buffer: inout [UInt8]) {
    if isFirstSettingsSent {
      buffer += SettingsFrame.raise(streamLimit: streamLimit)
    } else {
      isFirstSettingsSent = true
      buffer += SettingsFrame.first(
        streamLimit: configuration.initialStreamLimit,
        windowBytes: configuration.initialWindowBytes)
    }
  }
}
