import CNGHTTP2

/// A session of nghttp2, an independent implementation: either role, fed and read as bytes.
final class PeerSession {
  /// What came on a stream.
  struct Message: Equatable {
    var fields: [String] = []
    var body: [UInt8] = []
    var isComplete = false
    /// The code with which the stream was closed.
    var closed: UInt32?
  }

  private var session: OpaquePointer?
  private(set) var messages: [Int32: Message] = [:]
  /// Bodies to be sent, by stream.
  private var bodies: [Int32: ArraySlice<UInt8>] = [:]
  /// Streams whose message is complete, in that order.
  private(set) var completed: [Int32] = []
  private(set) var hasFailed = false

  init(isServer: Bool) {
    var callbacks: OpaquePointer?
    nghttp2_session_callbacks_new(&callbacks)
    defer { nghttp2_session_callbacks_del(callbacks) }
    nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, frame, name, nameCount, value, valueCount, _, user in
      guard let frame, let peer = peer(user) else { return 0 }
      let text = { String(decoding: UnsafeBufferPointer(start: $0, count: $1), as: UTF8.self) }
      peer.messages[frame.pointee.hd.stream_id, default: Message()].fields.append(
        "\(text(name, nameCount)): \(text(value, valueCount))")
      return 0
    }
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      _, _, streamID, bytes, count, user in
      peer(user)?.messages[streamID, default: Message()].body += UnsafeBufferPointer(
        start: bytes, count: count)
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
      guard let frame, let peer = peer(user) else { return 0 }
      let head = frame.pointee.hd
      if head.type <= NGHTTP2_HEADERS.rawValue, head.flags & 1 != 0 {
        peer.messages[head.stream_id]?.isComplete = true
        peer.completed.append(head.stream_id)
      }
      return 0
    }
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, streamID, code, user in
      peer(user)?.messages[streamID, default: Message()].closed = code
      return 0
    }
    let user = Unmanaged.passUnretained(self).toOpaque()
    if isServer {
      nghttp2_session_server_new(&session, callbacks, user)
    } else {
      nghttp2_session_client_new(&session, callbacks, user)
    }
  }

  deinit { nghttp2_session_del(session) }

  // MARK: Bytes

  func receive(_ bytes: [UInt8]) {
    if nghttp2_session_mem_recv(session, bytes, bytes.count) < 0 { hasFailed = true }
  }

  func output() -> [UInt8] {
    var output: [UInt8] = []
    var start: UnsafePointer<UInt8>?
    while case let count = nghttp2_session_mem_send(session, &start), count > 0 {
      output += UnsafeBufferPointer(start: start, count: count)
    }
    return output
  }

  // MARK: Frames

  func settings(_ entries: [(id: UInt32, value: UInt32)]) {
    let list = entries.map {
      nghttp2_settings_entry(settings_id: Int32($0.id), value: $0.value)
    }
    nghttp2_submit_settings(session, 0, list, list.count)
  }

  func ping() { nghttp2_submit_ping(session, 0, nil) }

  func reset(_ streamID: Int32, _ code: UInt32) {
    nghttp2_submit_rst_stream(session, 0, streamID, code)
  }

  /// The last stream is the last one that was processed.
  func goAway() {
    let last = nghttp2_session_get_last_proc_stream_id(session)
    nghttp2_submit_goaway(session, 0, last, 0, nil, 0)
  }

  /// Sends a request; returns its stream.
  func request(_ fields: [(String, String)], body: [UInt8]) -> Int32 {
    let streamID = nghttp2_session_get_next_stream_id(session)
    bodies[Int32(streamID)] = body[...]
    var provider = Self.provider
    return Self.withList(fields) { list, count in
      body.isEmpty
        ? nghttp2_submit_request(session, nil, list, count, nil, nil)
        : nghttp2_submit_request(session, nil, list, count, &provider, nil)
    }
  }

  func interim(_ streamID: Int32, _ fields: [(String, String)]) {
    Self.withList(fields) { list, count in
      _ = nghttp2_submit_headers(session, 0, streamID, nil, list, count, nil)
    }
  }

  func respond(_ streamID: Int32, _ fields: [(String, String)], body: [UInt8]) {
    bodies[streamID] = body[...]
    var provider = Self.provider
    _ = Self.withList(fields) { list, count in
      if body.isEmpty {
        nghttp2_submit_response(session, streamID, list, count, nil)
      } else {
        nghttp2_submit_response(session, streamID, list, count, &provider)
      }
    }
  }

  private static var provider: nghttp2_data_provider {
    var provider = nghttp2_data_provider()
    provider.read_callback = { _, streamID, buffer, capacity, flags, _, user in
      guard let peer = peer(user), let rest = peer.bodies[streamID] else { return 0 }
      let piece = rest.prefix(capacity)
      piece.withUnsafeBufferPointer { piece in
        if let start = piece.baseAddress { buffer?.update(from: start, count: piece.count) }
      }
      peer.bodies[streamID] = rest.dropFirst(piece.count)
      if piece.count == rest.count { flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
      return piece.count
    }
    return provider
  }

  private static func withList<Result>(
    _ fields: [(String, String)], _ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result
  ) -> Result {
    var text = fields.flatMap { Array($0.0.utf8) + Array($0.1.utf8) }
    return text.withUnsafeMutableBufferPointer { text in
      var place = text.baseAddress
      let list = fields.map { name, value in
        defer { place = place.map { $0 + name.utf8.count + value.utf8.count } }
        return nghttp2_nv(
          name: place, value: place.map { $0 + name.utf8.count }, namelen: name.utf8.count,
          valuelen: value.utf8.count, flags: 0)
      }
      return list.withUnsafeBufferPointer { body($0.baseAddress, $0.count) }
    }
  }
}

private func peer(_ user: UnsafeMutableRawPointer?) -> PeerSession? {
  user.map { Unmanaged<PeerSession>.fromOpaque($0).takeUnretainedValue() }
}
