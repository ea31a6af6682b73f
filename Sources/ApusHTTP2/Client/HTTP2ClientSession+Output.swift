import ApusModel
import CNGHTTP2

// Output to the server.
extension HTTP2ClientSession {
  /// Whether output is pending.
  package var wantsWrite: Bool {
    unsafe !carry.isEmpty || nghttp2_session_want_write(handle) != 0
  }

  /// Whether to close the connection: nothing more will be read or written.
  package var isFinished: Bool {
    guard !wantsWrite else { return false }
    return unsafe hasFailed || nghttp2_session_want_read(handle) == 0
  }

  /// Appends pending output to `buffer`, up to a total length of `limit` bytes; the rest waits.
  package func pendingOutput(into buffer: inout [UInt8], limit: Int) {
    while buffer.count < limit {
      if unsafe carry.isEmpty {
        var start: UnsafePointer<UInt8>?
        let count = unsafe nghttp2_session_mem_send(handle, &start)
        guard count > 0, let start = unsafe start else {
          if count < 0 { hasFailed = true }
          return
        }
        unsafe carry = spelled(UnsafeBufferPointer(start: start, count: count))
      }
      let count = unsafe min(limit - buffer.count, carry.count)
      let taken = unsafe UnsafeBufferPointer(rebasing: carry[..<count])
      unsafe buffer.append(contentsOf: taken)
      unsafe carry = UnsafeBufferPointer(rebasing: carry[count...])
    }
  }

  /// The frame itself; if it opens a stream, with the header fields of its request.
  ///
  /// Encoded here and not in `submit`: blocks must be encoded in the order in which they are sent, and some submitted
  /// requests are never sent.
  private func spelled(_ frame: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
    guard frame.count >= HeaderEncoder.frameHeaderLength,
      unsafe frame[3] == UInt8(truncatingIfNeeded: NGHTTP2_HEADERS.rawValue),
      let base = frame.baseAddress
    else { return unsafe frame }
    var streamID: Int32 = 0
    for place in 5..<9 { streamID = unsafe streamID &<< 8 | Int32(frame[place]) }
    guard let response = unsafe response(streamID) else { return unsafe frame }
    if isTableSizeNew {
      isTableSizeNew = false
      encoder.setTableCapacity(
        unsafe Int(
          nghttp2_session_get_remote_settings(handle, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE)))
    }
    var fields = HTTP2FieldList()
    unsafe response._withUnsafeGuaranteedRef { swap(&fields, &$0.requestFields) }
    return unsafe encoder.frame(like: base, fields)
  }
}

/// `POST`, `https` and `/`, all three of which are in RFC 7541, appendix A.
@safe struct Placeholder: @unchecked Sendable {
  private let block = HeaderBlock()
  var fields: UnsafeMutablePointer<nghttp2_nv> { unsafe block.fields }
  var count: Int { block.count }

  init() {
    block.add(.method, text: "POST")
    block.add(.scheme, text: "https")
    block.add(.path, text: "/", indexed: true)
  }
}
