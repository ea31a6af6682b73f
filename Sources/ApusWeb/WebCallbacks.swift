import CMicroHTTPD

// The callbacks of libmicrohttpd. All run on the daemon's thread.

private func daemon(_ context: UnsafeMutableRawPointer?) -> WebDaemon {
  guard let context = unsafe context else { preconditionFailure("a daemon has a context") }
  return unsafe Unmanaged<WebDaemon>.fromOpaque(context).takeUnretainedValue()
}

private func exchange(_ context: UnsafeMutableRawPointer) -> WebExchange {
  unsafe Unmanaged<WebExchange>.fromOpaque(context).takeUnretainedValue()
}

/// `MHD_AccessHandlerCallback`: called for a request's head, for each part of its body, and for its end.
func handle(
  _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ path: UnsafePointer<CChar>?,
  _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ data: UnsafePointer<CChar>?,
  _ size: UnsafeMutablePointer<Int>?, _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
  guard let connection = unsafe connection, let path = unsafe path, let method = unsafe method,
    let size = unsafe size, let place = unsafe place
  else { return .NO }
  let daemon = unsafe daemon(context)
  guard let known = unsafe place.pointee else {
    guard let peer = unsafe cmhd_connection_context(connection) else { return .NO }
    let exchange = unsafe daemon.begin(
      connection, Unmanaged<Connection>.fromOpaque(peer).takeUnretainedValue(),
      method: String(cString: method), path: String(cString: path))
    unsafe place.pointee = Unmanaged.passRetained(exchange).toOpaque()
    // A ready response needs no body; a response that is held back can wait for the body.
    guard let answer = exchange.answer, answer.holdMilliseconds == 0 else { return .YES }
    return unsafe daemon.proceed(connection, exchange)
  }
  let exchange = unsafe exchange(known)
  if unsafe size.pointee > 0 {
    let bytes = unsafe UnsafeRawBufferPointer(start: data, count: size.pointee)
    unsafe size.pointee = 0
    return unsafe daemon.take(exchange, bytes) ? .YES : .NO
  }
  return unsafe daemon.proceed(connection, exchange)
}

/// `MHD_RequestCompletedCallback`
func completed(
  _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
  _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ end: MHD_RequestTerminationCode
) {
  guard let known = unsafe place?.pointee else { return }
  unsafe place?.pointee = nil
  let exchange = unsafe Unmanaged<WebExchange>.fromOpaque(known).takeRetainedValue()
  unsafe daemon(context).finish(exchange)
}

/// `MHD_NotifyConnectionCallback`
func connected(
  _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?,
  _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ event: MHD_ConnectionNotificationCode
) {
  guard let handle = unsafe handle, let place = unsafe place else { return }
  let daemon = unsafe daemon(context)
  if event == .CONNECTION_NOTIFY_STARTED {
    unsafe place.pointee = Unmanaged.passRetained(daemon.started(handle)).toOpaque()
  } else if let known = unsafe place.pointee {
    unsafe place.pointee = nil
    daemon.ended(unsafe Unmanaged<Connection>.fromOpaque(known).takeRetainedValue())
  }
}

/// `MHD_ContentReaderCallback`
func readStream(
  _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?,
  _ count: Int
) -> Int {
  guard let context = unsafe context else { return -1 }
  let exchange = unsafe exchange(context)
  let bytes = unsafe UnsafeMutableRawBufferPointer(start: buffer, count: count)
  return unsafe exchange.stream?.read(into: bytes, for: exchange.connection) ?? -1
}
