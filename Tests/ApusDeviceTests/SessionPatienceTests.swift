import ApusLoop
import ApusTLS
import Glibc
import Testing

@testable import ApusDevice

@Suite("A TLS session is offered again unless it may have caused failures")
struct SessionPatienceTests {
  @Test("Attempts without a reason keep the session, until there are sixteen in a row")
  func silent() {
    var patience = SessionPatience()
    let words: [DeviceDisconnection] = [
      .closed, .timedOut, .transport(ECONNRESET), .tls(.truncated),
    ]
    for round in 0..<3 {
      let kept = (0..<15).map { patience.failed(words[($0 + round) % 4]) }
      #expect(kept == Array(repeating: true, count: 15))
      if round < 2 { patience.connected() }
    }
    // A new session starts from zero.
    let (sixteenth, next) = (patience.failed(.closed), patience.failed(.closed))
    #expect(!sixteenth && next)
  }

  @Test("A service that was not reached, or announced its end, says nothing about the session")
  func unreachable() {
    var patience = SessionPatience()
    let endings: [DeviceDisconnection] = [
      .goodbye(reason: "the service stops"), .stopped,
      .unreachable(.system(.connect, code: ECONNREFUSED, .loopbackIPv4(port: 1))),
    ]
    let kept = (0..<100).map { patience.failed(endings[$0 % 3]) }
    #expect(kept.allSatisfy { $0 })
  }

  @Test("A session that the service answered with an alert is not offered again")
  func blamed() {
    var patience = SessionPatience()
    let endings: [DeviceDisconnection] = [
      .otherProtocol, .closed, .tls(.alertReceived(40)), .closed,
    ]
    #expect(endings.map { patience.failed($0) } == [false, true, false, true])
  }
}
