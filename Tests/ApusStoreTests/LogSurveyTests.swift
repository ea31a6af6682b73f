import Foundation
import Testing

@testable import ApusStore

/// Logs written in bytes from the format's description, with checksums computed independently of this code.
@Suite("Survey of a store's log")
struct LogSurveyTests {
  // Checksum, length 12, type; sequence number and count.
  private static let two = hex("88796418 0c00 01 0500000000000000 02000000")
  private static let one = hex("0a7ad6d9 0c00 01 0700000000000000 01000000")
  private static let three = hex("488e75d2 0c00 01 0900000000000000 03000000")
  private static let beginOfOne = hex("79349d46 0500 02 0700000000")
  private static let endOfOne = hex("b9cb41d7 0700 04 000000 01000000")

  /// Sequence number 2^64 - 1.
  private static let farAhead = hex("e0d76004 0c00 01 ffffffffffffffff 01000000")

  private func survey(_ blocks: [UInt8]..., nextSequence: UInt64? = nil) -> LogSurvey {
    var survey = LogSurvey(nextSequence: nextSequence)
    for (index, block) in blocks.enumerated() {
      let isLast = index == blocks.count - 1
      let size = isLast ? block.count : LogSurvey.blockBytes
      let padded = block + [UInt8](repeating: 0, count: size - block.count)
      survey.read(padded.span, isLast: isLast)
    }
    return survey
  }

  @Test("The checksum is that of RFC 3720")
  func checksum() {
    #expect(CRC32C.of(Array("123456789".utf8).span).value == 0xe306_9283)
    #expect(CRC32C.of([UInt8](repeating: 0, count: 32).span).value == 0x8a91_36aa)
  }

  @Test(
    "Batches are counted, whole or in parts, up to unused room",
    arguments: [
      two + one, two + beginOfOne + endOfOne,
      two + one + [UInt8](repeating: 0, count: 100),
    ])
  func whole(log: [UInt8]) {
    let survey = survey(log)
    #expect(survey.isWhole && survey.tornOffset == nil)
    #expect(survey.writesBefore == 3 && survey.writesAfter == 0)
    #expect(survey.nextSequence == 8)
  }

  @Test("The loss of a flipped bit follows from later sequence numbers")
  func damage() {
    var damaged = Self.one
    damaged[10] ^= 0x10
    let survey = survey(Self.two + damaged, Self.three)
    #expect(survey.damage == [.init(offset: 19, bytes: 32_749, lostWrites: 2, isFollowed: true)])
    #expect(survey.writesBefore == 2 && survey.writesAfter == 3)
  }

  @Test("Damage at the beginning of the first log has an unknown loss, and later writes count")
  func damagedBeginning() {
    var damaged = Self.one
    damaged[4] = 0xff
    let survey = survey(damaged, Self.three)
    #expect(survey.damage == [.init(offset: 0, bytes: 32_768, lostWrites: nil, isFollowed: true)])
    #expect(survey.writesBefore == 0 && survey.writesAfter == 3)
  }

  @Test("Damage at the end of a log has an unknown loss")
  func damagedEnd() {
    var damaged = Self.one
    damaged[4] = 0xff
    let survey = survey(Self.two + damaged, [])
    #expect(survey.damage == [.init(offset: 19, bytes: 32_749, lostWrites: nil)])
    #expect(survey.writesBefore == 2 && survey.writesAfter == 0)
  }

  @Test(
    "The end of a batch without its beginning is damage of its own unless earlier damage explains it"
  )
  func orphan() {
    #expect(survey(Self.two + Self.endOfOne).damage == [.init(offset: 19, bytes: 14)])
    var damaged = Self.beginOfOne
    damaged[7] ^= 1
    #expect(survey(Self.two + damaged, Self.endOfOne + Self.three).damage.count == 1)
  }

  @Test("Writes missing between batches or logs are counted")
  func gap() {
    let survey = survey(Self.two + Self.three)
    #expect(survey.missingWrites == 2 && survey.damage.isEmpty && !survey.isWhole)
    #expect(survey.writesBefore == 2 && survey.writesAfter == 3)
    #expect(self.survey(Self.one, nextSequence: 5).missingWrites == 2)
    #expect(self.survey(Self.one, nextSequence: 7).isWhole)
  }

  @Test("A record cut off by a crash is not damage", arguments: 1...18)
  func torn(length: Int) {
    let survey = survey(Self.two + Self.one.prefix(length))
    #expect(survey.isWhole && survey.tornOffset == 19)
    #expect(survey.writesBefore == 2)
  }

  @Test("A batch of which only the beginning was written is not damage")
  func tornBetweenParts() {
    let survey = survey(Self.two + Self.beginOfOne)
    #expect(survey.isWhole && survey.tornOffset == 19)
    #expect(survey.writesBefore == 2)
  }

  @Test("An impossible sequence number is damage, even with a valid checksum")
  func sequenceTooLarge() {
    let survey = survey(Self.farAhead + Self.two, nextSequence: 5)
    #expect(survey.damage == [.init(offset: 0, bytes: 19, lostWrites: 0, isFollowed: true)])
    #expect(survey.missingWrites == 0 && survey.writesAfter == 2)
  }

  @Test("Record types that the store does not write are damage", arguments: [UInt8(5), 9, 0])
  func unknownType(type: UInt8) {
    var odd = Self.one
    odd[6] = type
    #expect(survey(Self.two + odd).damage.map(\.offset) == [19])
  }

  @Test("Of many damaged places the first five are described, and all are counted")
  func manyPlaces() {
    // The end of a batch without its beginning, and a whole one that ends the damage.
    let log = (0..<20).flatMap { _ in Self.endOfOne + Self.one }
    let survey = survey(log)
    #expect(survey.damage.map(\.offset) == [0, 33, 66, 99, 132])
    #expect(survey.damageCount == 20)
  }

  @Test("A missing file, or one that is not a log, is reported without blocking")
  func unreadable() throws {
    let scratch = Scratch()
    try FileManager.default.createDirectory(
      atPath: scratch.path + "/000003.log", withIntermediateDirectories: true)
    try #require(mkfifo(scratch.path + "/000004.log", 0o600) == 0)
    let findings = StoreSurvey(path: scratch.path).findings
    #expect(
      findings == [
        "000003.log: cannot be read: Invalid argument",
        "000004.log: cannot be read: Invalid argument",
      ])
  }
}
