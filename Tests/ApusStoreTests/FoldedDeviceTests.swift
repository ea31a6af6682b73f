import ApusModel
import ApusStore
import Testing

@Suite("Folded devices")
struct FoldedDeviceTests {
  private let record = DeviceRecord(
    fingerprint: KeyFingerprint(words: (1, 2, 3, 4)),
    topics: [
      TopicRegistration(
        topic: TopicKey(app: AppID(0x0a0b_0c0d), suffix: .voip), generation: 0x0102,
        state: .enabled, wasListed: true, stateSinceMilliseconds: 5,
        generationSinceMilliseconds: 6)
    ])

  private var recordBytes: [UInt8] {
    var bytes: [UInt8] = []
    record.encode(into: &bytes)
    return bytes
  }

  /// One stored notification: that of `LedgerTests`.
  private let storedBytes = hex(
    """
    01 02 03 04 05 06 07 08  # order
    12 3e 45 67 e8 9b 12 d3  # notification id
    a4 56 42 66 55 44 00 00
    11 11 11 11 22 22 22 22  # unique id
    33 33 33 33 44 44 44 44
    31 32 33 34 35 36 37 38  # token
    0a 0b 0c 0d  # app
    0f  # voip is suffix 7: 7 << 1 | development
    09  # push type: voip
    05  # priority
    01  # binary interface
    """)

  private func encoded(_ device: FoldedDevice) -> [UInt8] {
    var output: [UInt8] = [1, 2, 3]
    var scratch: [UInt8] = [4]
    device.encode(into: &output, scratch: &scratch)
    return output
  }

  @Test("A folded device is written and read according to the layout")
  func layout() throws {
    let device = FoldedDevice(record: record, stored: [LedgerTests.facts])
    let bytes = [0, UInt8(recordBytes.count)] + recordBytes + storedBytes
    #expect(encoded(device) == bytes)
    #expect(try FoldedDevice(decoding: bytes.span, device: LedgerTests.facts.device) == device)
  }

  @Test("An empty list of stored notifications differs from an unknown one")
  func unknown() throws {
    for stored in [nil, []] as [[NotificationFacts]?] {
      let device = FoldedDevice(record: record, stored: stored)
      let bytes = encoded(device)
      #expect(bytes == [0, UInt8(recordBytes.count)] + recordBytes + (stored == nil ? [0] : []))
      #expect(try FoldedDevice(decoding: bytes.span, device: DeviceID(1)) == device)
    }
  }

  @Test("Without its record it is two zeros, followed by the stored notifications")
  func withoutRecord() throws {
    let device = FoldedDevice(record: nil, stored: [LedgerTests.facts])
    #expect(encoded(device) == [0, 0] + storedBytes)
    let bytes = [0, 0] + storedBytes
    #expect(try FoldedDevice(decoding: bytes.span, device: LedgerTests.facts.device) == device)
  }

  @Test("Truncated bytes are rejected")
  func truncated() {
    let bytes = [0, UInt8(recordBytes.count)] + recordBytes + storedBytes
    let whole = [2 + recordBytes.count, 3 + recordBytes.count, bytes.count]
    for length in 0..<bytes.count where !whole.contains(length) {
      #expect(throws: RecordError.self) {
        try FoldedDevice(decoding: Array(bytes[..<length]).span, device: DeviceID(1))
      }
    }
  }
}
