internal import COpenSSL

/// OpenSSL's error queue, which belongs to the thread.
enum OpenSSLErrors {
  /// Empties the queue; returns the reason of the oldest error, which caused the others.
  static func drain() -> String {
    let code = ERR_get_error()
    ERR_clear_error()
    return text(code)
  }

  static func text(_ code: UInt) -> String {
    if code == 0 { return "no reason given" }
    guard let reason = unsafe ERR_reason_error_string(code) else { return "OpenSSL error \(code)" }
    return unsafe String(cString: reason)
  }
}
