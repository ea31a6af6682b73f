import ApusModel
import CNGHTTP2

// What goes to the server.
extension HTTP2ClientSession {
  /// Whether there is something to write.
  package var wantsWrite: Bool {
    unsafe !carry.isEmpty || nghttp2_session_want_write(handle) != 0
  }

  /// Whether the connection is to be closed: nothing more will be read or written.
  package var isFinished: Bool {
    guard !wantsWrite else { return false }
    return unsafe hasFailed || nghttp2_session_want_read(handle) == 0
  }

  /// Appends what is to be sent to `buffer`, up to a length of `limit` bytes in all; the rest waits.
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

  /// The frame itself, or the same with the fields of its request where it opens a stream.
  ///
  /// Here and not where a request is submitted: blocks must be spelled in the order in which they are sent, and of
  /// what was submitted some may never be.
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

/// `POST`, `https` and `/`, which RFC 7541, appendix A has all three.
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
