import CShims
import Testing

@testable import ApusTLS

// RFC 8446, sections 4.6.3, 5 and 6, with records that no library would make.

@Suite("Rules of TLS records")
struct RecordRuleTests {
  private static let keyUpdate: [UInt8] = [24, 0, 0, 1, 0]

  /// The bytes that a case sends, and the alert that they cause.
  struct Fault: Sendable, CustomTestStringConvertible {
    let name: String
    let alert: UInt8
    let records: @Sendable (RecordForge) -> [UInt8]
    var testDescription: String { name }

    init(_ name: String, _ alert: UInt8, _ records: @escaping @Sendable (RecordForge) -> [UInt8]) {
      self.name = name
      self.alert = alert
      self.records = records
    }
  }

  static let faults: [Fault] =
    [
      // Section 5: unprotected records, whose body is not waited for.
      Fault("a plain alert", 10) { _ in [21, 3, 3, 0, 2, 2, 40] },
      Fault("a plain handshake message", 10) { _ in [22, 3, 3, 0, 5, 24, 0, 0, 1, 0] },
      Fault("a change_cipher_spec after the handshake", 10) { _ in [20, 3, 3, 0, 1, 1] },
      Fault("a heartbeat", 10) { _ in [24, 3, 3, 0, 3] },
      // Section 5.2.
      Fault("a length above 2^14 + 256", 22) { _ in [23, 3, 3, 0x41, 0x01] },
      Fault("an inner plaintext above 2^14 + 1", 22) {
        $0.record(inner: [UInt8](repeating: 23, count: 16386))
      },
      Fault("padding beyond that", 22) { $0.record(23, [1], padding: 16385) },
      Fault("no room for a type", 20) { _ in
        [23, 3, 3, 0, 16] + [UInt8](repeating: 7, count: 16)
      },
      Fault("an empty record", 20) { _ in [23, 3, 3, 0, 0] },
      Fault("a record twice", 20) { forge in
        let record = forge.data([1])
        return record + record
      },
      Fault("a record too few", 20) { forge in
        _ = forge.data([1])
        return forge.data([2])
      },
      Fault("records in another order", 20) { forge in
        let first = forge.data([1])
        return forge.data([2]) + first
      },
      // Section 5.4.
      Fault("nothing but padding", 10) { $0.record(inner: [0, 0, 0, 0]) },
      Fault("a change_cipher_spec inside", 10) { $0.record(20, [1]) },
      Fault("a type that there is not", 10) { $0.record(99, [1]) },
      // Sections 5.1 and 6.
      Fault("an empty alert", 10) { $0.record(21, []) },
      Fault("half an alert", 50) { $0.record(21, [2]) },
      Fault("an alert and a half", 50) { $0.record(21, [1, 0, 2]) },
      Fault("an empty handshake message", 10) { $0.record(22, []) },
      // Section 4.6.
      Fault("a ticket from a client", 10) { $0.record(22, [4, 0, 0, 1, 0]) },
      Fault("a ClientHello", 10) { $0.record(22, [1, 0, 0, 1, 0]) },
      Fault("a certificate that nobody asked for", 10) { $0.record(22, [11, 0, 0, 1, 0]) },
      Fault("a KeyUpdate of 2 bytes", 50) { $0.record(22, [24, 0, 0, 2, 0, 0]) },
      Fault("a KeyUpdate without its byte", 50) { $0.record(22, [24, 0, 0, 0]) },
      Fault("a KeyUpdate of 16 MB", 50) { $0.record(22, [24, 255, 255, 255, 0]) },
      Fault("a KeyUpdate that asks for what is not", 47) { $0.record(22, [24, 0, 0, 1, 2]) },
      Fault("something behind a KeyUpdate", 10) { $0.record(22, keyUpdate + [24]) },
      Fault("two KeyUpdates in a record", 10) { $0.record(22, keyUpdate + keyUpdate) },
      Fault("data inside a handshake message", 10) { forge in
        forge.record(22, [24, 0, 0]) + forge.data([1])
      },
      Fault("empty data inside a handshake message", 10) { forge in
        forge.record(22, [24, 0, 0]) + forge.data([])
      },
      Fault("the old keys behind a KeyUpdate", 20) { forge in
        forge.record(22, keyUpdate) + forge.data([1])
      },
    ]

  @Test("A peer that breaks a rule gets the alert for it", arguments: faults, [1, Int.max])
  func fault(fault: Fault, step: Int) throws {
    for suite in RecordSuite.allCases {
      let forge = RecordForge(suite)
      let side = forge.side()
      let run = RecordRun(side, fault.records(forge), step: step)
      let expected = try #require(RecordFault(rawValue: fault.alert))
      #expect(run.failure == expected.error)
      #expect(forge.opened(run.output) == [[2, fault.alert, 21]])
      // It stays ended, and its keys are wiped.
      #expect(RecordRun(side, forge.data([1])).failure == expected.error)
      #expect(throws: expected.error) { try side.written([1]) }
      #expect(try side.written() == [])
      #expect(bytes(side.reading).allSatisfy { $0 == 0 })
      #expect(bytes(side.writing).allSatisfy { $0 == 0 })
    }
  }

  @Test("Padding of any length is removed", arguments: [0, 1, 2, 255, 256, 1000, 16384])
  func padding(count: Int) {
    let forge = RecordForge()
    let content = [UInt8](repeating: 0, count: min(3, 16384 - count))
    let run = RecordRun(forge.side(), forge.record(23, content, padding: count))
    #expect(run.failure == nil)
    #expect(run.received == (content.isEmpty ? [] : [content]))
  }

  @Test("The version in a header is ignored, as long as it is the authenticated one")
  func version() {
    let forge = RecordForge()
    #expect(RecordRun(forge.side(), forge.record(inner: [9, 23], version: 1)).received == [[9]])
  }

  @Test("Some records without data are allowed, and one too many ends the connection")
  func flood() {
    for message in [[UInt8](), Self.keyUpdate] {
      let type: UInt8 = message.isEmpty ? 23 : 22
      let forge = RecordForge()
      let side = forge.side()
      func sendIdle(_ count: Int) -> RecordRun {
        var records: [UInt8] = []
        for _ in 0..<count {
          records += forge.record(type, message)
          if type == 22 { forge.updateKeys() }
        }
        return RecordRun(side, records)
      }
      #expect(sendIdle(32).failure == nil)
      #expect(RecordRun(side, forge.data([5])).received == [[5]])
      #expect(sendIdle(32).failure == nil)
      #expect(sendIdle(1).failure == RecordFault.unexpectedMessage.error)
    }
  }

  @Test("Records that arrive together are read together, at most 16 KiB")
  func together() {
    let forge = RecordForge()
    let sizes = [1, 300, 16083, 1, 16384, 16384, 5, 0, 16000, 383, 2, 1]
    let records = sizes.flatMap { forge.data(pattern($0, salt: $0)) }
    let run = RecordRun(forge.side(), records)
    #expect(run.received.map(\.count) == [16384, 1, 16384, 16384, 16005, 386])
    #expect(run.received.flatMap(\.self) == sizes.flatMap { pattern($0, salt: $0) })
    #expect(run.failure == nil)
  }

  @Test("Data received before the end is read before it", arguments: [1, 100, Int.max])
  func dataBeforeEnd(step: Int) throws {
    let ends: [(RecordForge) -> [UInt8]] = [
      { $0.record(21, [2, 40]) }, { $0.record(21, [1, 0]) }, { $0.record(99, [1]) },
      { _ in [23, 3, 3, 0, 0] }, { _ in [23, 3, 3, 255, 0] },
    ]
    for (index, end) in ends.enumerated() {
      let forge = RecordForge()
      let run = RecordRun(
        forge.side(), forge.data([1, 2]) + forge.data([3]) + end(forge) + [1, 2, 3], step: step)
      #expect(run.received.flatMap(\.self) == [1, 2, 3])
      let failures: [TLSError?] = [
        .alertReceived(40), nil, RecordFault.unexpectedMessage.error,
        RecordFault.badRecordMAC.error, RecordFault.recordOverflow.error,
      ]
      #expect(run.failure == failures[index])
      #expect(run.isClosed == (index == 1))
    }
  }

  @Test("A KeyUpdate may be split")
  func keyUpdateInParts() {
    let forge = RecordForge()
    let side = forge.side()
    for byte in [24, 0, 0, 1, 1] as [UInt8] {
      let run = RecordRun(side, forge.record(22, [byte]))
      #expect(run.failure == nil && run.output.isEmpty)
    }
    forge.updateKeys()
    #expect(RecordRun(side, forge.data([1, 2])).received == [[1, 2]])
    // The answer comes before the next data, and once.
    #expect(throws: Never.self) {
      let output = try side.written([3]) + side.written([4])
      #expect(forge.opened(output) == [[24, 0, 0, 1, 0, 22], [3, 23], [4, 23]])
    }
  }

  @Test("Several requests for new keys between two writes get one answer")
  func oneAnswer() throws {
    let forge = RecordForge()
    let side = forge.side()
    for _ in 0..<10 {
      #expect(RecordRun(side, forge.record(22, [24, 0, 0, 1, 1])).failure == nil)
      forge.updateKeys()
    }
    #expect(forge.opened(try side.written([3])) == [[24, 0, 0, 1, 0, 22], [3, 23]])
  }

  @Test("Our keys are updated before they have protected too many records")
  func ownUpdate() throws {
    let forge = RecordForge(sent: RecordSide.recordsPerKey - 1)
    forge.from.sequence = RecordSide.recordsPerKey - 1
    let side = forge.side()
    let output = try side.written(pattern(2 * 16384))
    let records = try #require(forge.opened(output))
    #expect(records.map(\.count) == [16385, 6, 16385])
    #expect(records[1] == [24, 0, 0, 1, 0, 22])
  }

  @Test("An alert has the same effect at any level", arguments: [0, 1, 2, 9] as [UInt8])
  func alerts(level: UInt8) throws {
    for code in [10, 40, 80, 109, 255] as [UInt8] {
      let forge = RecordForge()
      let side = forge.side()
      let run = RecordRun(side, forge.record(21, [level, code]) + forge.data([1]))
      #expect(run.failure == .alertReceived(code))
      #expect(run.received.isEmpty && run.output.isEmpty)
      #expect(throws: TLSError.alertReceived(code)) { try side.written([1]) }
    }
    // user_canceled only announces a close_notify.
    let forge = RecordForge()
    let side = forge.side()
    let run = RecordRun(
      side, forge.record(21, [level, 90]) + forge.data([7]) + forge.record(21, [level, 0]) + [23])
    #expect(run.received == [[7]] && run.isClosed && run.failure == nil)
    // The other direction is still open.
    #expect(forge.opened(try side.written([8])) == [[8, 23]])
    #expect(forge.opened(try side.written()) == [[1, 0, 21]])
    #expect(throws: TLSError.notWritable) { try side.written([8]) }
  }

  @Test("A client skips tickets in one record, in several, and beside others")
  func tickets() {
    let forge = RecordForge(isServer: false)
    let ticket = [4, 0, 2, 0] + pattern(512)
    let side = forge.side()
    let records =
      forge.record(22, ticket + ticket) + forge.data([1])
      + forge.record(22, Array(ticket.prefix(3))) + forge.record(22, Array(ticket[3..<100]))
      + forge.record(22, Array(ticket.dropFirst(100)) + Self.keyUpdate)
    forge.updateKeys()
    let run = RecordRun(side, records + forge.data([2]))
    #expect(run.failure == nil)
    #expect(run.received == [[1, 2]])
    let huge = RecordForge(isServer: false)
    #expect(
      RecordRun(huge.side(), huge.record(22, [4, 2, 1, 10])).failure
        == RecordFault.illegalParameter.error)
  }
}
