import CShims

@testable import ApusTLS

/// Both secrets of a connection, to forge records that no peer using OpenSSL would send.
final class RecordForge {
  let suite: RecordSuite
  let traffic: UnsafeMutablePointer<apus_traffic>
  /// The direction to the side under test, and back.
  var to = apus_record_keys()
  var from = apus_record_keys()
  private let sealer: OpaquePointer
  private let opener: OpaquePointer

  /// RFC 8448, section 3: {client} and {server} derive the application traffic secrets.
  static let clientSecret = hex(
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
  static let serverSecret = hex(
    "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")

  init(
    _ suite: RecordSuite = .aes128, isServer: Bool = true, sent: UInt64 = 0, received: UInt64 = 0
  ) {
    self.suite = suite
    traffic = .allocate(capacity: 1)
    traffic.initialize(to: apus_traffic())
    let rest = [UInt8](repeating: 0x5a, count: suite.secretBytes - 32)
    withUnsafeMutableBytes(of: &traffic.pointee.client_secret) {
      $0.copyBytes(from: Self.clientSecret + rest)
    }
    withUnsafeMutableBytes(of: &traffic.pointee.server_secret) {
      $0.copyBytes(from: Self.serverSecret + rest)
    }
    traffic.pointee.is_server = isServer
    traffic.pointee.client_records = isServer ? received : sent
    traffic.pointee.server_records = isServer ? sent : received
    _ = apus_keys_begin(&to, suite.shim, traffic, !isServer)
    _ = apus_keys_begin(&from, suite.shim, traffic, isServer)
    guard let sealer = apus_aead_new(suite.shim, true),
      let opener = apus_aead_new(suite.shim, false)
    else { preconditionFailure("OpenSSL has no \(suite)") }
    (self.sealer, self.opener) = (sealer, opener)
  }

  deinit {
    traffic.deallocate()
    apus_aead_free(sealer)
    apus_aead_free(opener)
  }

  func side() -> RecordSide {
    guard
      let side = RecordSide(
        traffic, suite: suite, isResumed: false, protocolIndex: nil, facts: nil)
    else { preconditionFailure("OpenSSL derives no keys") }
    return side
  }

  /// A record with that TLSInnerPlaintext: content, type, padding.
  func record(inner: [UInt8], version: UInt8 = 3) -> [UInt8] {
    let count = inner.count + 16
    var record = [23, 3, version, UInt8(count >> 8), UInt8(count & 0xff)] + inner
    record += [UInt8](repeating: 0, count: 16)
    let header = Array(record[..<5])
    _ = record[5...].withUnsafeMutableBufferPointer {
      apus_aead_seal(sealer, &to, header, $0.baseAddress, inner.count)
    }
    return record
  }

  func record(_ type: UInt8, _ content: [UInt8], padding: Int = 0) -> [UInt8] {
    record(inner: content + [type] + [UInt8](repeating: 0, count: padding))
  }

  func data(_ content: [UInt8]) -> [UInt8] { record(23, content) }

  func updateKeys() { _ = apus_keys_update(&to, suite.shim) }

  /// The contents of the records written by the side under test, each with its type last; nil if its keys did not make
  /// them.
  func opened(_ bytes: [UInt8]) -> [[UInt8]]? {
    var found: [[UInt8]] = []
    var rest = bytes[...]
    while rest.count > 5 {
      let header = Array(rest.prefix(5))
      let body = Array(rest.dropFirst(5).prefix(Int(header[3]) << 8 | Int(header[4])))
      guard body.count > 16 else { return nil }
      var inner = [UInt8](repeating: 0, count: body.count)
      guard apus_aead_open(opener, &from, header, body, body.count, &inner) else { return nil }
      found.append(Array(inner[..<(body.count - 16)]))
      // The keys after a KeyUpdate are new.
      if found.last == [24, 0, 0, 1, 0, 22] || found.last == [24, 0, 0, 1, 1, 22] {
        _ = apus_keys_update(&from, suite.shim)
      }
      rest = rest.dropFirst(5 + body.count)
    }
    return rest.isEmpty ? found : nil
  }
}

/// The reports of a record layer without a connection.
struct RecordRun {
  var received: [[UInt8]] = []
  var isClosed = false
  var failure: TLSError?
  var output: [UInt8] = []

  /// - Parameter step: Bytes that arrive at a time.
  init(_ side: RecordSide, _ bytes: [UInt8], step: Int = .max) {
    let buffers = TLSBuffers()
    var rest = bytes[...]
    repeat {
      let part = Array(rest.prefix(step))
      rest = rest.dropFirst(step)
      part.withUnsafeBytes { input in
        buffers.lend(input)
        var isDone = false
        while !isDone {
          switch side.read(buffers) {
          case .plaintext(let bytes):
            received.append(Array(bytes))
            continue
          case .closedByPeer: isClosed = true
          case .failed(let error): failure = error
          case .needsInput, .handshakeCompleted: break
          }
          isDone = true
        }
      }
    } while !rest.isEmpty
    output = Array(buffers.output)
  }
}

extension RecordSide {
  /// Its output for some bytes, or for its end.
  func written(_ bytes: [UInt8]? = nil) throws -> [UInt8] {
    let buffers = TLSBuffers()
    if let bytes {
      try bytes.withUnsafeBytes { try write($0, buffers) }
    } else {
      close(buffers)
    }
    return Array(buffers.output)
  }
}

/// Bytes from hexadecimal digits; spaces and line ends are ignored.
func hex(_ text: String) -> [UInt8] {
  let digits = text.compactMap(\.hexDigitValue)
  return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
