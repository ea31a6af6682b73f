import ApusLoop
import ApusTLS
import ApusWire
import Glibc
import Testing

@testable import ApusDevice

@Suite("Which of a service's addresses is tried next")
struct AddressRotationTests {
  /// The steps after that many failures, and the address of each attempt after them.
  private func fail(
    _ rotation: inout AddressRotation, times: Int
  ) -> [(step: AddressRotation.Step, address: Int)] {
    (0..<times).map { _ in
      let step = rotation.failed(wasSteady: false)
      return (step, rotation.current)
    }
  }

  @Test("A round tries each address once, in order, and then waits")
  func rounds() {
    var rotation = AddressRotation(count: 3)
    #expect(rotation.current == 0)
    let path = fail(&rotation, times: 6)
    #expect(path.map(\.step) == [.connect, .connect, .wait, .connect, .connect, .wait])
    #expect(path.map(\.address) == [1, 2, 0, 1, 2, 0])
  }

  @Test("A single address waits after each failure")
  func single() {
    var rotation = AddressRotation(count: 1)
    #expect(fail(&rotation, times: 3).map(\.step) == [.wait, .wait, .wait])
    let (steady, silent) = (rotation.failed(wasSteady: true), rotation.fellSilent())
    #expect(steady == .wait && silent == .wait && rotation.current == 0)
  }

  @Test("Rounds begin with the address that worked last")
  func preferred() {
    var rotation = AddressRotation(count: 3)
    _ = fail(&rotation, times: 1)
    rotation.answered()
    let lost = rotation.failed(wasSteady: true)
    #expect(lost == .connect && rotation.current == 2)
    let path = fail(&rotation, times: 5)
    #expect(path.map(\.step) == [.connect, .wait, .connect, .connect, .wait])
    #expect(path.map(\.address) == [0, 1, 2, 0, 1])
  }

  @Test("Services that accept and close at once are not tried endlessly without a wait")
  func fleeting() {
    var rotation = AddressRotation(count: 2)
    var steps: [AddressRotation.Step] = []
    for _ in 0..<6 {
      rotation.answered()
      steps.append(rotation.failed(wasSteady: false))
    }
    #expect(steps == [.connect, .wait, .connect, .wait, .connect, .wait])
  }

  @Test("After a silence the same address is tried first, then the others")
  func silence() {
    var rotation = AddressRotation(count: 2)
    _ = fail(&rotation, times: 1)
    rotation.answered()
    let silent = rotation.fellSilent()
    #expect(silent == .connect && rotation.current == 1)
    let path = fail(&rotation, times: 2)
    #expect(path.map(\.step) == [.connect, .wait] && path.map(\.address) == [0, 1])
  }

  @Test("A new round begins with the address that worked, in the middle of a round too")
  func restart() {
    var rotation = AddressRotation(count: 3)
    rotation.answered()
    _ = fail(&rotation, times: 2)
    rotation.restart()
    #expect(rotation.current == 0)
    #expect(fail(&rotation, times: 3).map(\.step) == [.connect, .connect, .wait])
  }

  @Test("A hint is tried first in the next round, and forgotten when it fails")
  func hint() {
    var rotation = AddressRotation(count: 2)
    rotation.answered()
    rotation.hinted()
    #expect(!rotation.isAtHint)
    let lost = rotation.failed(wasSteady: true)
    #expect(lost == .connect && rotation.isAtHint && rotation.current == 0)
    rotation.answered()
    // The loss of a connection that worked there.
    let back = rotation.failed(wasSteady: true)
    #expect(back == .connect && !rotation.isAtHint && rotation.current == 0)
    let path = fail(&rotation, times: 4)
    #expect(path.map(\.step) == [.connect, .wait, .connect, .wait])
    #expect(path.map(\.address) == [1, 0, 1, 0])
  }

  @Test("A round that a goodbye or a silence begins starts with the hint, unless it was forgotten")
  func hintFirst() {
    var rotation = AddressRotation(count: 1)
    rotation.answered()
    rotation.hinted()
    let silent = rotation.fellSilent()
    #expect(silent == .connect && rotation.isAtHint)
    rotation.answered()
    rotation.restart()
    #expect(rotation.isAtHint)
    let steps = fail(&rotation, times: 2).map(\.step)
    #expect(steps == [.connect, .wait] && !rotation.isAtHint)
    rotation.answered()
    rotation.hinted()
    rotation.forgetHint()
    rotation.restart()
    #expect(!rotation.isAtHint)
  }

  @Test("Services that name another address and close at once are not tried without a wait")
  func hintLoop() {
    var rotation = AddressRotation(count: 2)
    var steps: [AddressRotation.Step] = []
    for _ in 0..<4 {
      rotation.answered()
      rotation.hinted()
      steps.append(rotation.failed(wasSteady: false))
    }
    #expect(steps == [.connect, .connect, .connect, .wait])
  }

  @Test("What concerns the device itself is no reason to try another address")
  func reasons() throws {
    let elsewhere: [DeviceDisconnection] = [
      .unreachable(.system(.connect, code: ECONNREFUSED, nil)), .timedOut, .closed, .otherProtocol,
      .transport(ECONNRESET), .tls(.truncated), .tls(.certificateRejected("expired")),
      // handshake_failure, internal_error, unrecognized_name.
      .tls(.alertReceived(40)), .tls(.alertReceived(80)), .tls(.alertReceived(112)),
    ]
    for reason in elsewhere { #expect(reason.concernsAddress, "\(reason)") }
    var device: [DeviceDisconnection] = [.stopped, .goodbye(reason: "the device reconnected")]
    // bad, unsupported, revoked, expired and unknown certificate, unknown_ca, access_denied, required.
    device += [42, 43, 44, 45, 46, 48, 49, 116].map { .tls(.alertReceived($0)) }
    for reason in device { #expect(!reason.concernsAddress, "\(reason)") }
  }
}
