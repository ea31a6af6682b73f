import Testing

@testable import ApusServer

@Suite("Gathering notifications for the same device", .timeLimit(.minutes(30)))
struct GatheringTests {
  @Test("Notifications for few devices are sent immediately")
  func few() {
    var gathering = Gathering()
    for now in 0..<10 as Range<UInt64> {
      let action = gathering.turnEnds(
        devices: Gathering.devices - 1, joined: 100, nowMilliseconds: now)
      #expect(action == .send)
      #expect(!gathering.isOn)
    }
  }

  @Test("For many devices there is a wait of two milliseconds, repeated if it gathered some")
  func many() {
    var gathering = Gathering()
    for began in [1000, 1002, 1004] as [UInt64] {
      let first = gathering.turnEnds(devices: 8, joined: 0, nowMilliseconds: began)
      #expect(first == .beginToWait)
      #expect(gathering.isOn)
      let second = gathering.turnEnds(devices: 30, joined: 3, nowMilliseconds: began + 1)
      #expect(second == .wait)
      // Six of 48 notifications were joined with another: an eighth.
      let third = gathering.turnEnds(devices: 42, joined: 6, nowMilliseconds: began + 2)
      #expect(third == .send)
      #expect(!gathering.isOn)
    }
  }

  @Test("A wait that gathered hardly anything is not tried again for a while")
  func spread() {
    var gathering = Gathering()
    let begins = gathering.turnEnds(devices: 8, joined: 0, nowMilliseconds: 1000)
    let ends = gathering.turnEnds(devices: 43, joined: 6, nowMilliseconds: 1003)
    #expect((begins, ends) == (.beginToWait, .send))
    for now in [1003, 1100, 1252] as [UInt64] {
      let action = gathering.turnEnds(devices: 500, joined: 500, nowMilliseconds: now)
      #expect(action == .send)
    }
    let again = gathering.turnEnds(devices: 500, joined: 0, nowMilliseconds: 1253)
    #expect(again == .beginToWait)
  }

  @Test("A wait ends on time even if no device has notifications left")
  func nobodyLeft() {
    var gathering = Gathering()
    let begins = gathering.turnEnds(devices: 8, joined: 0, nowMilliseconds: 5)
    let ends = gathering.turnEnds(devices: 0, joined: 0, nowMilliseconds: 7)
    #expect((begins, ends) == (.beginToWait, .send))
  }
}
