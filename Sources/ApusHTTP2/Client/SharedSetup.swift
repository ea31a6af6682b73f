import CNGHTTP2

/// Options or callbacks of nghttp2 shared by all sessions of a kind: written once before use, and never freed.
@safe struct SharedSetup: @unchecked Sendable {
  let pointer: OpaquePointer

  static func options(_ configure: (OpaquePointer) -> Void) -> SharedSetup {
    var options: OpaquePointer?
    guard unsafe nghttp2_option_new(&options) == 0, let options = unsafe options else {
      fatalError("out of memory")
    }
    unsafe configure(options)
    return unsafe SharedSetup(pointer: options)
  }

  static func callbacks(_ configure: (OpaquePointer) -> Void) -> SharedSetup {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks = unsafe callbacks
    else { fatalError("out of memory") }
    unsafe configure(callbacks)
    return unsafe SharedSetup(pointer: callbacks)
  }
}

/// Copies as much of a body's `rest` as fits into a DATA frame, and marks the frame that ends it. Returns the bytes
/// copied.
func fillData(
  _ buffer: UnsafeMutablePointer<UInt8>, capacity: Int, from rest: Span<UInt8>,
  flags: UnsafeMutablePointer<UInt32>
) -> Int {
  let count = min(capacity, rest.count)
  unsafe rest.withUnsafeBufferPointer { source in
    if let base = source.baseAddress { unsafe buffer.update(from: base, count: count) }
  }
  if count == rest.count { unsafe flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
  return count
}
