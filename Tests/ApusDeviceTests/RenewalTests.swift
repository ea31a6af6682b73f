import ApusDevice
import ApusWire
import Testing

@Suite("When a device renews")
struct RenewalScheduleTests {
  private static let day: Int64 = 86_400

  /// Ninety days, starting 1,000 days after the epoch.
  private func schedule(spread: Int64 = 0) -> RenewalSchedule {
    RenewalSchedule(
      notBefore: 1000 * Self.day, notAfter: 1090 * Self.day, spread: spread)
  }

  @Test(
    "Each device has its own moment in the first half of the last third",
    arguments: [(0, 1060), (500, 1067), (1000, 1075), (-5, 1060), (2000, 1075)])
  func moment(spread: Int64, day: Int64) {
    let due = schedule(spread: spread).dueUnixMilliseconds
    #expect(due / 1000 / Self.day == day)
  }

  @Test("The service's clock counts, and only during a connection")
  func clock() {
    var schedule = schedule()
    #expect(schedule.dueMilliseconds == nil)
    schedule.connected(
      serverMilliseconds: UInt64(1059 * Self.day) * 1000, nowMilliseconds: 5000)
    #expect(schedule.dueMilliseconds == 5000 + UInt64(Self.day) * 1000)
    let isEarly = schedule.takeDue(nowMilliseconds: 6000)
    schedule.disconnected()
    let isOffline = schedule.takeDue(nowMilliseconds: .max)
    #expect(!isEarly && !isOffline)
    schedule.connected(
      serverMilliseconds: UInt64(1080 * Self.day) * 1000, nowMilliseconds: 7000)
    let isDue = schedule.takeDue(nowMilliseconds: 7000)
    // Not twice on a connection without an answer.
    let isDueAgain = schedule.takeDue(nowMilliseconds: 100_000_000)
    #expect(isDue && !isDueAgain)
  }

  @Test("After a refusal the service is asked again, neither immediately nor never")
  func refused() {
    var schedule = schedule()
    for (seconds, wait) in [
      (UInt32(1), UInt64(60_000)), (600, 600_000), (.max, 86_400_000),
    ] {
      schedule.refused(retrySeconds: seconds, nowMilliseconds: 1000)
      #expect(schedule.dueMilliseconds == 1000 + wait)
    }
    schedule.refused(retrySeconds: nil, nowMilliseconds: 1000)
    #expect(schedule.dueMilliseconds == 1000 + 3_600_000)
    schedule.pending(retrySeconds: 5, nowMilliseconds: 1000)
    #expect(schedule.dueMilliseconds == 6000)
    schedule.pending(retrySeconds: 0, nowMilliseconds: 1000)
    #expect(schedule.dueMilliseconds == 2000)
  }

  @Test(
    "After advice to renew, the device picks its own moment in the given time")
  func advised() {
    for (spread, seconds, wait) in [
      (Int64(500), UInt32(100), UInt64(50_000)), (0, 100, 0), (1000, .max, 86_400_000),
    ] {
      var schedule = schedule(spread: spread)
      schedule.advised(withinSeconds: seconds, spread: spread, nowMilliseconds: 1000)
      #expect(schedule.dueMilliseconds == nil, "without a connection")
      schedule.connected(
        serverMilliseconds: UInt64(1001 * Self.day) * 1000, nowMilliseconds: 1000)
      schedule.advised(withinSeconds: seconds, spread: spread, nowMilliseconds: 1000)
      #expect(schedule.dueMilliseconds == 1000 + wait)
      // Earlier advice is followed.
      schedule.advised(withinSeconds: .max, spread: 1000, nowMilliseconds: 1000)
      #expect(schedule.dueMilliseconds == 1000 + wait)
    }
  }
}

@Suite("The courier client asks for certificates")
struct ClientCertificateTests {
  private var enrolling: CourierClient.Configuration {
    .init(enrolment: .init(code: [0x41], certificateRequest: [0x30, 0x00], name: [0x62]))
  }

  @Test("A client without a certificate requests one instead of connecting")
  func enrols() {
    var scripted = Scripted(enrolling)
    scripted.begin()
    #expect(
      scripted.said
        == bytes("81 0000000d  40 0001 41  41 0002 3000  42 0001 62"))
    scripted.receive(bytes("82 0000000c  40 0001 00  43 0005 3003020100"))
    #expect(scripted.heard == ["issued 0"])
    #expect(scripted.client.phase == .over)
  }

  @Test("The client accepts no connect response as the answer, and no answer without a request")
  func outOfTurn() {
    var scripted = Scripted(enrolling)
    scripted.begin()
    scripted.receive(FromService.accepted())
    #expect(scripted.heard.count == 1 && scripted.heard[0].hasPrefix("fault"))
    var connecting = Scripted(.init())
    connecting.begin()
    connecting.receive(bytes("82 0000000b  40 0001 01  44 0004 00000005"))
    #expect(connecting.heard.count == 1 && connecting.heard[0].hasPrefix("fault"))
  }

  @Test("A goodbye or a malformed answer ends the request")
  func noAnswer() {
    var scripted = Scripted(enrolling)
    scripted.begin()
    scripted.receive(bytes("80 00000005  40 0002 6e6f"))
    #expect(scripted.heard == ["goodbye no"])
    scripted.receive(bytes("82 00000004  40 0001 00"))
    #expect(scripted.heard.last?.hasPrefix("fault") == true)
  }

  @Test("Renewal is requested on a connection, and only in our own dialect")
  func renews() {
    let request = CourierRenewalRequest(certificateRequest: [0x30, 0x00])
    var scripted = Scripted.connected()
    var said: [UInt8] = []
    let isSaid = scripted.client.requestRenewal(request, to: &said)
    #expect(isSaid)
    #expect(said == bytes("83 00000005  41 0002 3000"))
    scripted.receive(bytes("84 0000000b  40 0001 01  44 0004 00000005"))
    #expect(scripted.heard == ["renewal 1"])
    var offline = CourierClient(configuration: .init())
    let isSaidOffline = offline.requestRenewal(request, to: &said)
    var old = Scripted.connected(.init(dialect: .securityV2))
    let isSaidByOld = old.client.requestRenewal(request, to: &said)
    #expect(!isSaidOffline && !isSaidByOld)
    old.receive(bytes("84 0000000b  40 0001 01  44 0004 00000005"))
    #expect(old.heard.isEmpty)
  }
}
