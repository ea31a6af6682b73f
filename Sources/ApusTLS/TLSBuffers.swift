internal import CShims
internal import Glibc

/// The memory that all connections of a worker share: ciphertext to send, and the plaintext of one record.
///
/// Lent to one connection at a time. What `output` holds after a call belongs to the connection that was called: send
/// or copy it, then `removeAllOutput()`, before the next connection's turn.
@safe package final class TLSBuffers {
  /// Bytes of plaintext in a record at most. RFC 8446, section 5.1.
  package static let recordBytes = 16384
  /// Output memory that is kept for the next turn.
  private static let keptOutputBytes = 1 << 20

  let pump: UnsafeMutablePointer<apus_tls_pump>
  let plaintext: UnsafeMutableRawBufferPointer

  package init() {
    unsafe pump = .allocate(capacity: 1)
    unsafe pump.initialize(to: apus_tls_pump())
    unsafe pump.pointee.alert_sent = -1
    unsafe plaintext = .allocate(byteCount: Self.recordBytes, alignment: 64)
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

  /// Forgets the output; the memory is kept, unless a burst made it large.
  package func removeAllOutput() {
    unsafe pump.pointee.output_count = 0
    guard unsafe pump.pointee.output_capacity > Self.keptOutputBytes else { return }
    unsafe free(pump.pointee.output)
    unsafe pump.pointee.output = nil
    unsafe pump.pointee.output_capacity = 0
  }

  /// Whose the output is: for `attach` alone, in debug builds.
  var outputOwner: ObjectIdentifier?

  var hasInput: Bool { unsafe pump.pointee.input_count > 0 }

  func lend(_ input: UnsafeRawBufferPointer) {
    precondition(!hasInput, "the connection before was not read until it needed input")
    unsafe pump.pointee.input = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
    unsafe pump.pointee.input_count = input.count
  }

  func dropInput() {
    unsafe pump.pointee.input = nil
    unsafe pump.pointee.input_count = 0
  }
}
