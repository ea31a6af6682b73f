import ApusModel
import CNGHTTP2

// What nghttp2 reports, in the order in which a request meets it. Each function answers as the callback must.
extension HTTP2ServerSession {
  static var proceed: Int32 { 0 }
  /// The header block is decoded for the table's sake, and no more is heard of the stream.
  static var ignoreBlock: Int32 { NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue }
  static var giveUp: Int32 { NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }

  func request(_ streamID: Int32) -> HTTP2Request? {
    if let current = unsafe current, current.streamID == streamID { return current }
    guard let pointer = unsafe nghttp2_session_get_stream_user_data(handle, streamID) else {
      return nil
    }
    return unsafe Unmanaged<HTTP2Request>.fromOpaque(pointer).takeUnretainedValue()
  }

  /// A header block begins: of a request, or of trailers.
  func didBeginHeaders(streamID: Int32, isRequest: Bool) -> Int32 {
    setCurrent(nil)
    trailerBytes = 0
    guard isRequest else { return Self.proceed }
    guard !isGoAwayFinal, unsafe openRequests.count < allowedStreams, let request = pool.take()
    else {
      return refuse(streamID)
    }
    request.prepare(
      streamID: streamID, slot: unsafe openRequests.count, nowMilliseconds: nowMilliseconds)
    unsafe openRequests.append(request)
    setCurrent(request)
    unsafe nghttp2_session_set_stream_user_data(
      handle, streamID, Unmanaged.passUnretained(request).toOpaque())
    arm(nowMilliseconds + Self.requestMilliseconds)
    return Self.proceed
  }

  /// A client may open as many streams as it likes until it knows the limit ("streams opened before the client saw
  /// SETTINGS are never a connection error"). One that never acknowledges is taken to know it after a while.
  private var allowedStreams: Int {
    if isSettingsAcknowledged { return streamLimit }
    if nowMilliseconds >= startedMilliseconds + Self.requestMilliseconds { return streamLimit }
    return max(streamLimit, Limits.concurrentStreams)
  }

  private func refuse(_ streamID: Int32) -> Int32 {
    if isSettingsAcknowledged, !isGoAwayFinal, !watch.resets.take() {
      pendingFailure = .flood(.resets)
      return Self.giveUp
    }
    return submitReset(streamID, .refusedStream) ? Self.ignoreBlock : Self.giveUp
  }

  /// One field of a block that is not a request's.
  func didReceiveTrailer(streamID: Int32, name: Span<UInt8>, value: Span<UInt8>) -> Int32 {
    trailerBytes += name.count + value.count + 32
    let isFine = RequestShape.isTrailer(name: name, value: value)
    if isFine, trailerBytes <= Limits.headerListBytes { return Self.proceed }
    guard let request = request(streamID) else { return Self.ignoreBlock }
    return reset(request, isFine ? .enhanceYourCalm : .protocolError)
  }

  /// A field of the current request cannot be taken.
  func resetCurrent(_ code: HTTP2ErrorCode) -> Int32 {
    guard let current = unsafe current else { return Self.ignoreBlock }
    return reset(current, code)
  }

  /// The block is whole.
  func didReceiveHeaders(streamID: Int32, isRequest: Bool, endsStream: Bool) -> Int32 {
    guard let request = request(streamID) else { return Self.proceed }
    if isRequest {
      guard unsafe request.record.pointee.shape.isWhole else {
        return finish(reset(request, .protocolError))
      }
    } else if !endsStream {
      // RFC 9113, section 8.1: a second block is the trailers and ends the stream.
      return finish(reset(request, .protocolError))
    }
    return endsStream ? didEnd(request) : Self.proceed
  }

  func didReceiveBody(streamID: Int32, bytes: Span<UInt8>) {
    guard let request = request(streamID), !request.state.contains(.complete) else { return }
    unsafe request.record.pointee.append(bytes)
    if request.bodyByteCount > Limits.discardedBodyBytes {
      request.state.insert(.complete)
      unsafe completed.push(request)
    }
  }

  func didEndBody(streamID: Int32) -> Int32 {
    guard let request = request(streamID) else { return Self.proceed }
    return didEnd(request)
  }

  private func didEnd(_ request: HTTP2Request) -> Int32 {
    let wasComplete = request.state.contains(.complete)
    request.state.formUnion([.ended, .complete])
    guard !wasComplete else { return Self.proceed }
    let record = unsafe request.record
    guard unsafe record.pointee.shape.fits(bodyByteCount: record.pointee.bodyByteCount) else {
      return finish(reset(request, .protocolError))
    }
    unsafe completed.push(request)
    return Self.proceed
  }

  /// nghttp2 closed a stream: its answer was sent, or either side reset it.
  func didClose(streamID: Int32, code: UInt32) {
    guard let pointer = unsafe nghttp2_session_get_stream_user_data(handle, streamID) else {
      pendingResetCount -= 1
      return
    }
    let request = unsafe Unmanaged<HTTP2Request>.fromOpaque(pointer).takeUnretainedValue()
    if code == HTTP2ErrorCode.noError.rawValue, request.state.contains(.answered) {
      watch.resets.credit(1)
    }
    close(request)
  }

  private func close(_ request: HTTP2Request) {
    if unsafe current === request { setCurrent(nil) }
    if request.state.contains(.answeredEarly) { earlyAnswerCount -= 1 }
    let last = unsafe openRequests.removeLast()
    if last !== request {
      unsafe openRequests[request.slot] = last
      last.slot = request.slot
    }
    request.slot = -1
    if !request.isInUse { pool.give(request) }
  }

  // MARK: Resets

  /// Resets a stream for what the client did.
  private func reset(_ request: HTTP2Request, _ code: HTTP2ErrorCode) -> Int32 {
    let streamID = request.streamID
    unsafe nghttp2_session_set_stream_user_data(handle, streamID, nil)
    close(request)
    guard chargeReset() else { return Self.giveUp }
    return submitReset(streamID, code) ? Self.ignoreBlock : Self.giveUp
  }

  /// The same for callbacks that know only success and failure.
  private func finish(_ status: Int32) -> Int32 {
    status == Self.ignoreBlock ? Self.proceed : status
  }

  /// A request that makes the service reset it costs what one that the client resets does.
  func chargeReset() -> Bool {
    if watch.resets.take() { return true }
    pendingFailure = .flood(.resets)
    return false
  }

  private func submitReset(_ streamID: Int32, _ code: HTTP2ErrorCode) -> Bool {
    guard pendingResetCount < Limits.pendingResets else {
      pendingFailure = .streams
      return false
    }
    pendingResetCount += 1
    unsafe nghttp2_submit_rst_stream(handle, 0, streamID, code.rawValue)
    return true
  }

  // MARK: Sending

  /// The last frame of an answer left: what still comes of the request is not wanted (RFC 9113, section 8.1).
  func didSendEnd(streamID: Int32) {
    guard earlyAnswerCount > 0, let request = request(streamID), !request.state.contains(.ended)
    else { return }
    unsafe nghttp2_submit_rst_stream(handle, 0, streamID, HTTP2ErrorCode.noError.rawValue)
  }

  func didSendGoAway() {
    if ownGoAwayCount > 0 { ownGoAwayCount -= 1 } else { hasFailed = true }
  }

  /// The client said that it is going: so do we, and answer what is open.
  func didReceiveGoAway() { goAway(reason: nil) }
}
