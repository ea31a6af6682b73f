import ApusModel
import ApusStore
import Testing

struct RejectionRecordTests {
  @Test("A row has worker and reason as its key, and a number as its value")
  func bytes() throws {
    let key = RejectionRecord.key(worker: 0x0102, .badDeviceToken)
    #expect(key == Array("rejections/".utf8) + [1, 2] + Array("BadDeviceToken".utf8))
    let value = RejectionRecord.encode(0x0a0b)
    #expect(value == [1, 0, 0, 0, 0, 0, 0, 0x0a, 0x0b])
    let read = try RejectionRecord.decode(key: key.span, value: value.span)
    #expect(read.worker == 0x0102 && read.reason == .badDeviceToken && read.number == 0x0a0b)
  }

  @Test("A row of another version, of an unknown reason or of another length is rejected")
  func malformed() {
    let key = RejectionRecord.key(worker: 0, .badTopic)
    let other = Array("rejections/".utf8) + [0, 0] + Array("BadMood".utf8)
    for (key, value, error) in [
      (key, [2, 0, 0, 0, 0, 0, 0, 0, 1], .unknownVersion(2)),
      (key, [1, 0, 0, 0, 0, 0, 0, 0], .truncated(field: "number")),
      (key, [1, 0, 0, 0, 0, 0, 0, 0, 1, 0], .trailingBytes(1)),
      (other, [1, 0, 0, 0, 0, 0, 0, 0, 1], .malformed(field: "reason")),
    ] as [([UInt8], [UInt8], RecordError)] {
      #expect(throws: error) { try RejectionRecord.decode(key: key.span, value: value.span) }
    }
  }
}
