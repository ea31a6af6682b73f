import ApusCore
import ApusModel
import Testing

@Suite("What a sender sends again after a late error packet")
struct RelayedFramesTests {
  private func entry(_ number: UInt64) -> RememberedSequences.Entry {
    .init(
      digest: RelayDigest(high: 7, low: number), original: NotificationID(high: 9, low: number))
  }

  private func add(_ frames: inout RelayedFrames, _ numbers: ClosedRange<UInt32>) {
    for number in numbers {
      frames.addRelayed(
        entry(UInt64(number)), sequence: number, identifier: number + 100, isSilent: false)
    }
  }

  @Test("Everything behind the rejected one, answered or not")
  func following() throws {
    var frames = RelayedFrames()
    add(&frames, 0...4)
    frames.answered(3)
    let refused = try #require(frames.refused(1))
    #expect(refused.digest == entry(1).digest)
    #expect(refused.identifier == 101)
    #expect(refused.following == [entry(2), entry(3), entry(4)])
    #expect(frames.refused(3) == nil)
    #expect(frames.refused(5) == nil)
  }

  @Test("What upstream has answered up to the oldest open one is forgotten")
  func forgotten() {
    var frames = RelayedFrames()
    add(&frames, 0...3)
    frames.answered(1)
    #expect(frames.count == 4)
    frames.answered(0)
    #expect(frames.count == 2)
    frames.answered(3)
    frames.answered(2)
    #expect(frames.count == 0)
    frames.answered(2)
    #expect(frames.count == 0)
  }

  @Test("Notifications for devices of this service count behind an unanswered one")
  func others() throws {
    var frames = RelayedFrames()
    frames.addOther(entry(50), nextSequence: 0)
    #expect(frames.count == 0)
    add(&frames, 0...0)
    frames.addOther(entry(51), nextSequence: 1)
    frames.addOther(entry(52), nextSequence: 1)
    add(&frames, 1...1)
    frames.addOther(entry(53), nextSequence: 2)
    #expect(
      try #require(frames.refused(0)).following == [entry(51), entry(52), entry(1), entry(53)])
    #expect(try #require(frames.refused(1)).following == [entry(53)])
    frames.answered(0)
    #expect(frames.count == 2)
    frames.answered(1)
    #expect(frames.count == 0)
  }

  @Test("It is known what to remember when everything behind the rejected one is decided")
  func decisions() throws {
    var frames = RelayedFrames()
    add(&frames, 0...2)
    frames.addOther(entry(50), nextSequence: 3)
    frames.addOther(entry(51), nextSequence: 3, isDecided: false)
    add(&frames, 4...4)
    frames.decided(0, isAccepted: true)
    #expect(!frames.isDecided(after: 1))
    for sequence: UInt32 in [2, 3] { frames.decided(sequence, isAccepted: true) }
    #expect(!frames.isDecided(after: 1))
    frames.decided(4, isAccepted: true)
    #expect(frames.isDecided(after: 1))
    #expect(!frames.isDecided(after: 0))
    #expect(
      try #require(frames.refused(1)).following == [entry(2), entry(50), entry(51), entry(4)])
  }

  @Test("Nothing is remembered from the first one on that the service could not take")
  func lost() throws {
    var frames = RelayedFrames()
    add(&frames, 0...4)
    for sequence: UInt32 in 1...4 { frames.decided(sequence, isAccepted: sequence != 3) }
    #expect(frames.isDecided(after: 0))
    #expect(try #require(frames.refused(0)).following == [entry(1), entry(2)])
  }

  @Test("Numbers may pass 2^32")
  func wraps() throws {
    var frames = RelayedFrames()
    for (place, sequence) in [UInt32.max - 1, .max, 0, 1].enumerated() {
      frames.addRelayed(
        entry(UInt64(place)), sequence: sequence, identifier: sequence, isSilent: false)
    }
    #expect(try #require(frames.refused(.max)).following == [entry(2), entry(3)])
    #expect(try #require(frames.refused(0)).following == [entry(3)])
    frames.answered(.max - 1)
    frames.answered(.max)
    #expect(frames.count == 2)
  }

  @Test("Thousands that are answered in any order leave nothing")
  func many() {
    var frames = RelayedFrames()
    add(&frames, 0...4999)
    for number in stride(from: UInt32(4999), through: 1, by: -1) { frames.answered(number) }
    #expect(frames.count == 5000)
    frames.answered(0)
    #expect(frames.count == 0)
  }
}
