internal import CShims

/// The memory that all connections of a worker share: ciphertext to send, and the plaintext of one record.
///
/// Lent to one connection at a time. After a call, `output` belongs to the connection called: send or copy it, then
/// call `removeAllOutput()`, before using the next connection.
@safe package final class TLSBuffers {
  /// The most bytes of plaintext in a record. RFC 8446, section 5.1.
  package static let recordBytes = 16384
  /// The output memory kept for reuse.
  private static let keptOutputBytes = 1 << 20

  let pump: UnsafeMutablePointer<apus_tls_pump>
  /// Room for a record with its type and padding.
  let plaintext: UnsafeMutableRawBufferPointer
  let aeads = RecordAEADs()

  package init() {
    unsafe pump = .allocate(capacity: 1)
    unsafe pump.initialize(to: apus_tls_pump())
    unsafe pump.pointee.alert_sent = -1
    unsafe plaintext = .allocate(byteCount: RecordSide.protectedBytes, alignment: 64)
  }

  deinit {
    unsafe free(pump.pointee.output)
    unsafe pump.deallocate()
    unsafe plaintext.deallocate()
  }

  /// Ciphertext to send. Valid until the next call on a connection or on the buffers.
  package var output: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: pump.pointee.output, count: pump.pointee.output_count)
  }

  package var outputCount: Int { unsafe pump.pointee.output_count }

  /// Empties the output; keeps the memory, unless a burst made it large.
  package func removeAllOutput() {
    unsafe pump.pointee.output_count = 0
    guard unsafe pump.pointee.output_capacity > Self.keptOutputBytes else { return }
    unsafe free(pump.pointee.output)
    unsafe pump.pointee.output = nil
    unsafe pump.pointee.output_capacity = 0
  }

  /// The certificate of the last handshake that was refused because of one; returned once.
  package func takeRejectedCertificate() -> RejectedCertificate? {
    guard unsafe pump.pointee.has_rejected else { return nil }
    unsafe pump.pointee.has_rejected = false
    func text<Field>(_ field: inout Field) -> String {
      unsafe withUnsafeBytes(of: &field) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
    }
    let digest = unsafe withUnsafeBytes(of: &pump.pointee.rejected_digest) { unsafe Array($0) }
    return unsafe RejectedCertificate(
      subject: text(&pump.pointee.rejected_subject), issuer: text(&pump.pointee.rejected_issuer),
      sha256: digest)
  }

  /// Wipes the record keys in the AEADs: those of the last connections used.
  package func forgetKeys() { aeads.forgetKeys() }

  /// The connection that the output belongs to; only checked in debug builds.
  private var outputOwner: ObjectIdentifier?

  func beginTurn(of connection: TLSConnection) {
    assert(
      outputCount == 0 || outputOwner == ObjectIdentifier(connection),
      "another connection's output was not sent")
    assert({ outputOwner = ObjectIdentifier(connection) }() == ())
  }

  var hasInput: Bool { unsafe pump.pointee.input_count > 0 }

  func lend(_ input: UnsafeRawBufferPointer) {
    precondition(!hasInput, "the previous connection was not read until it needed input")
    unsafe pump.pointee.input = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
    unsafe pump.pointee.input_count = input.count
  }

  /// Gives up the rest of the input of a connection that ended while it was read.
  package func dropInput() {
    unsafe pump.pointee.input = nil
    unsafe pump.pointee.input_count = 0
  }

  /// Takes back the input not consumed, after `.handshakeCompleted`, for a connection that is handed over.
  package func takeInput() -> [UInt8] {
    defer { dropInput() }
    return unsafe Array(
      UnsafeBufferPointer(start: pump.pointee.input, count: pump.pointee.input_count))
  }

  // MARK: For exchanges without OpenSSL

  /// Moves input to `bytes` until these are `count`, or the input is used up.
  func takeInput(upTo count: Int, into bytes: inout [UInt8]) {
    let taken = unsafe min(max(0, count - bytes.count), pump.pointee.input_count)
    guard taken > 0 else { return }
    unsafe bytes.append(contentsOf: UnsafeBufferPointer(start: pump.pointee.input, count: taken))
    unsafe pump.pointee.input += taken
    unsafe pump.pointee.input_count -= taken
  }

  /// Lends the plaintext of a record, at most `recordBytes`.
  func setPlaintext(_ bytes: Span<UInt8>) -> UnsafeRawBufferPointer {
    let count = min(bytes.count, Self.recordBytes)
    unsafe bytes.withUnsafeBytes { bytes in
      unsafe plaintext.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }
    return unsafe UnsafeRawBufferPointer(start: plaintext.baseAddress, count: count)
  }

  func appendOutput(_ bytes: Span<UInt8>) {
    let target = unsafe reserveOutput(bytes.count)
    unsafe bytes.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      unsafe UnsafeMutableRawPointer(target).copyMemory(from: base, byteCount: bytes.count)
    }
    keepOutput(bytes.count)
  }

  // MARK: For writing in place

  /// Reserves room after the output. `keepOutput` adds the bytes written there.
  func reserveOutput(_ count: Int) -> UnsafeMutablePointer<UInt8> {
    let needed = unsafe pump.pointee.output_count + count
    if unsafe needed > pump.pointee.output_capacity || pump.pointee.output == nil {
      let capacity = max(2 * needed, 2 * Self.recordBytes)
      unsafe pump.pointee.output = realloc(pump.pointee.output, capacity)?
        .assumingMemoryBound(to: UInt8.self)
      unsafe pump.pointee.output_capacity = capacity
    }
    guard let output = unsafe pump.pointee.output else { preconditionFailure("out of memory") }
    return unsafe output + pump.pointee.output_count
  }

  func keepOutput(_ count: Int) { unsafe pump.pointee.output_count += count }
}

/// The certificate that ended a handshake, for diagnosis.
package struct RejectedCertificate: Sendable, Hashable {
  /// As OpenSSL prints a name, `/UID=com.example.app/OU=…`: at most 255 bytes, with `\x` for non-ASCII.
  package let subject: String
  package let issuer: String
  package let sha256: [UInt8]
}
