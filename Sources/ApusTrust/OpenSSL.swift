import COpenSSL
import CShims

/// Helpers for calling OpenSSL.
enum OpenSSL {
  /// Clears OpenSSL's errors of this thread. The next `SSL_get_error` on the thread would attribute a remaining one to
  /// a TLS connection.
  static func clearErrors() { ERR_clear_error() }

  /// The output of an `i2d_…` function, which is called for the length first, then for the bytes.
  static func encoded(
    _ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
  ) -> [UInt8] {
    let count = encode(nil)
    guard count > 0 else {
      clearErrors()
      return []
    }
    var bytes = [UInt8](repeating: 0, count: Int(count))
    unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      var cursor = buffer.baseAddress
      _ = unsafe encode(&cursor)
    }
    return bytes
  }

  /// The result of a `d2i_…` function; nil unless it consumes all the bytes.
  static func decoded(
    _ bytes: Span<UInt8>, free: (OpaquePointer?) -> Void,
    _ decode: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> OpaquePointer?
  ) -> OpaquePointer? {
    unsafe bytes.withUnsafeBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return nil }
      var cursor: UnsafePointer<UInt8>? = unsafe start
      guard let object = unsafe decode(&cursor, buffer.count) else {
        clearErrors()
        return nil
      }
      guard unsafe cursor == start + buffer.count else {
        unsafe free(object)
        return nil
      }
      return unsafe object
    }
  }
}

/// The text form of keys and certificates: RFC 7468.
enum PEM {
  struct Block: Hashable {
    /// The text between `-----BEGIN ` and `-----`.
    let label: String
    let der: [UInt8]
    /// Whether the block has a header of the old form, as keys in the old encrypted format do.
    let hasHeader: Bool
  }

  /// The blocks of a text, in order. Text between them is skipped.
  static func blocks(of text: String) -> [Block] {
    var blocks: [Block] = []
    let bytes = Array(text.utf8)
    unsafe bytes.withUnsafeBytes { buffer in
      guard let bio = unsafe BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count))
      else { return }
      defer { unsafe BIO_free(bio) }
      while true {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        guard unsafe PEM_read_bio(bio, &label, &header, &data, &count) == 1,
          let label = unsafe label, let data = unsafe data
        else { break }
        unsafe blocks.append(
          Block(
            label: String(cString: label),
            der: Array(UnsafeBufferPointer(start: data, count: count)),
            hasHeader: header.map { unsafe $0.pointee != 0 } ?? false))
        unsafe apus_clear_free(label, 0)
        unsafe apus_clear_free(header, 0)
        unsafe apus_clear_free(data, count)
      }
      OpenSSL.clearErrors()
    }
    return blocks
  }

  static func text(label: String, der: [UInt8]) -> String {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { preconditionFailure("out of memory") }
    defer { unsafe BIO_free(bio) }
    _ = unsafe PEM_write_bio(bio, label, "", der, der.count)
    var start: UnsafePointer<UInt8>?
    let count = unsafe apus_bio_bytes(bio, &start)
    return unsafe String(
      decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
  }
}
