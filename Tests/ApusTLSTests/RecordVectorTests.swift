import CShims
import Testing

@testable import ApusTLS

// RFC 8448, "Example Handshake Traces for TLS 1.3", section 3: a simple 1-RTT handshake, from the end of the handshake
// on. All bytes are the RFC's.

@Suite("TLS records of RFC 8448")
struct RecordVectorTests {
  /// {server} send a NewSessionTicket.
  static let ticket = hex(
    """
    17 03 03 00 de 3a 6b 8f 90 41 4a 97 d6 95 9c 34 87 68 0d e5 13 4a 2b 24 0e 6c ff ac 11 6e 95
    d4 1d 6a f8 f6 b5 80 dc f3 d1 1d 63 c7 58 db 28 9a 01 59 40 25 2f 55 71 3e 06 1d c1 3e 07 88
    91 a3 8e fb cf 57 53 ad 8e f1 70 ad 3c 73 53 d1 6d 9d a7 73 b9 ca 7f 2b 9f a1 b6 c0 d4 a3 d0
    3f 75 e0 9c 30 ba 1e 62 97 2a c4 6f 75 f7 b9 81 be 63 43 9b 29 99 ce 13 06 46 15 13 98 91 d5
    e4 c5 b4 06 f1 6e 3f c1 81 a7 7c a4 75 84 00 25 db 2f 0a 77 f8 1b 5a b0 5b 94 c0 13 46 75 5f
    69 23 2c 86 51 9d 86 cb ee ac 87 aa c3 47 d1 43 f9 60 5d 64 f6 50 db 4d 02 3e 70 e9 52 ca 49
    fe 51 37 12 1c 74 bc 26 97 68 7e 24 87 46 d6 df 35 30 05 f3 bc e1 86 96 12 9c 81 53 55 6b 3b
    6c 67 79 b3 7b f1 59 85 68 4f
    """)
  /// {client} send application_data record.
  static let clientData = hex(
    """
    17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab
    3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d
    ea e6 3a ee bb 21 69 49 15 e4
    """)
  /// {server} send application_data record.
  static let serverData = hex(
    """
    17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f 82 aa 1b
    36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3
    32 54 0d d0 32 e1 67 c2 95 5d
    """)
  /// {client} send alert record, {server} send alert record: close_notify.
  static let clientEnd = hex(
    "17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3")
  static let serverEnd = hex(
    "17 03 03 00 13 b5 8f d6 71 66 eb f5 99 d2 47 20 cf be 7e fa 7a 88 64 a9")
  /// The payload of both: 50 bytes.
  static let payload = (0..<50).map { UInt8($0) }

  @Test("The keys are derived from the traffic secrets")
  func keys() {
    let forge = RecordForge()
    #expect(Array(bytes(forge.to.key).prefix(16)) == hex("17422dda596ed5d9acd890e3c63f5051"))
    #expect(bytes(forge.to.iv) == hex("5b78923dee08579033e523d9"))
    #expect(Array(bytes(forge.from.key).prefix(16)) == hex("9f02283b6c9c07efc26bb9f2ac92e356"))
    #expect(bytes(forge.from.iv) == hex("cf782b88dd83549aadf1e984"))
  }

  @Test(
    "The client's bytes match, and its ticket is skipped, in any chunks",
    arguments: [1, 3, 64, .max])
  func client(step: Int) throws {
    let side = RecordForge(isServer: false).side()
    #expect(try side.written(Self.payload) == Self.clientData)
    let run = RecordRun(side, Self.ticket + Self.serverData, step: step)
    #expect(run.received == [Self.payload])
    #expect(run.failure == nil)
    #expect(try side.written() == Self.clientEnd)
    #expect(RecordRun(side, Self.serverEnd, step: step).isClosed)
  }

  @Test(
    "The server's bytes match after a ticket that OpenSSL sent", arguments: [1, 3, 64, .max])
  func server(step: Int) throws {
    let side = RecordForge(isServer: true, sent: 1).side()
    let run = RecordRun(side, Self.clientData, step: step)
    #expect(run.received == [Self.payload])
    #expect(try side.written(Self.payload) == Self.serverData)
    #expect(RecordRun(side, Self.clientEnd, step: step).isClosed)
    #expect(try side.written() == Self.serverEnd)
  }

  @Test("A flipped bit anywhere in a record is detected")
  func flippedBits() {
    for index in Self.clientData.indices {
      for bit in 0..<8 {
        var record = Self.clientData
        record[index] ^= 1 << bit
        // A longer length waits for more; a shorter one leaves a rest.
        record += [UInt8](repeating: 0, count: 70_000)
        let run = RecordRun(RecordForge(sent: 1).side(), record)
        #expect(run.received.isEmpty)
        #expect(run.failure != nil, "byte \(index), bit \(bit)")
      }
    }
  }

  @Test("A partial record gives nothing, and the end after it is a truncation")
  func parts() {
    for count in 1..<Self.clientData.count {
      let side = RecordForge(sent: 1).side()
      let run = RecordRun(side, Array(Self.clientData.prefix(count)))
      #expect(run.received.isEmpty && run.failure == nil && run.output.isEmpty)
      guard case .failed(.truncated) = side.endOfInput() else {
        Issue.record("\(count) bytes were no truncation")
        continue
      }
      #expect(throws: TLSError.truncated) { try side.written([1]) }
    }
  }
}

/// The bytes of a C array.
func bytes<Field>(_ field: Field) -> [UInt8] {
  withUnsafeBytes(of: field) { Array($0) }
}
