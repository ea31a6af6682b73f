import COpenSSL

/// 16 bytes as two words, big-endian.
struct Block128: Hashable {
  var high: UInt64
  var low: UInt64

  init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Reads 16 bytes.
  init(_ bytes: Span<UInt8>) {
    precondition(bytes.count == 16, "a block has 16 bytes")
    var high: UInt64 = 0
    var low: UInt64 = 0
    for index in 0..<8 {
      high = high << 8 | UInt64(bytes[index])
      low = low << 8 | UInt64(bytes[8 + index])
    }
    self.init(high: high, low: low)
  }

  static let zero = Block128(high: 0, low: 0)

  static func ^ (left: Block128, right: Block128) -> Block128 {
    Block128(high: left.high ^ right.high, low: left.low ^ right.low)
  }

  /// Multiplied by x in GF(2^128). RFC 5297, section 2.3.
  var doubled: Block128 {
    let carry: UInt64 = high >> 63
    return Block128(high: high << 1 | low >> 63, low: low << 1 ^ (0 &- carry) & 0x87)
  }
}

/// AES-128 on single blocks, through one context of OpenSSL. For one thread; its owner must call `free`.
///
/// The context is set up once, because the set-up is expensive, not the block (15 ns).
@safe struct AESBlock {
  static let keyBytes = 16

  private let context: OpaquePointer

  init(key: Span<UInt8>) {
    precondition(key.count == Self.keyBytes, "a key of AES-128 has 16 bytes")
    guard let context = unsafe EVP_CIPHER_CTX_new() else { preconditionFailure("out of memory") }
    unsafe self.context = unsafe context
    let started = unsafe key.withUnsafeBufferPointer {
      unsafe EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nil, $0.baseAddress, nil)
    }
    precondition(started == 1, "OpenSSL has AES-128")
    unsafe EVP_CIPHER_CTX_set_padding(context, 0)
  }

  func free() { unsafe EVP_CIPHER_CTX_free(context) }

  /// Encrypts many blocks in place, two words each in native byte order: `wordCount` words, or all of them.
  func encrypt(blocks: inout [UInt64], wordCount: Int? = nil) {
    let words = wordCount ?? blocks.count
    precondition(words <= blocks.count && words & 1 == 0, "a block is two words")
    let length = Int32(8 * words)
    var count: Int32 = 0
    let done = unsafe blocks.withUnsafeMutableBytes { bytes in
      let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      return unsafe EVP_EncryptUpdate(context, start, &count, start, length)
    }
    precondition(done == 1 && count == length, "whole blocks go through at once")
  }

  @inline(__always)
  func encrypt(_ block: Block128) -> Block128 {
    var input = (block.high.bigEndian, block.low.bigEndian)
    var output: (UInt64, UInt64) = (0, 0)
    var count: Int32 = 0
    let done = unsafe withUnsafeBytes(of: &input) { input in
      unsafe withUnsafeMutableBytes(of: &output) { output in
        unsafe EVP_EncryptUpdate(
          context, output.baseAddress?.assumingMemoryBound(to: UInt8.self), &count,
          input.baseAddress?.assumingMemoryBound(to: UInt8.self), 16)
      }
    }
    precondition(done == 1 && count == 16, "a whole block goes through at once")
    return Block128(high: UInt64(bigEndian: output.0), low: UInt64(bigEndian: output.1))
  }
}
