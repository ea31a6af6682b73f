import ApusModel
import Testing

@testable import ApusEnrolment
@testable import ApusServer

@Suite("The list of devices that wait for the operator")
struct PendingRoomTests {
  private typealias Request = PendingEnrolments.Request

  private func request(
    _ number: Int, _ origin: Request.Origin, address: String = "192.0.2.1",
    state: PendingEnrolments.State = .waiting
  ) -> Request {
    Request(
      key: "\(number)", name: "", address: address, seconds: 0,
      device: DeviceID(UInt64(bitPattern: Int64(number))),
      isRenewal: origin == .renewal, hasCode: origin == .code, state: state)
  }

  /// As many as allowed of a kind, each from its own address.
  private func full(_ origin: Request.Origin, state: PendingEnrolments.State = .waiting)
    -> [Request]
  {
    (0..<Limits.pendingEnrolments).map {
      request($0, origin, address: "198.51.100.\($0)", state: state)
    }
  }

  @Test("A list full of unknown devices still accepts codes and renewals")
  func besideUntrusted() {
    let others = full(.withoutCode)
    #expect(PendingEnrolments.judge(request(-1, .withoutCode), among: others) == .full)
    #expect(PendingEnrolments.judge(request(-1, .code), among: others) == .added)
    #expect(PendingEnrolments.judge(request(-1, .renewal), among: others) == .added)
    #expect(PendingEnrolments.judge(request(-1, .withoutCode), among: others.dropLast()) == .added)
  }

  @Test("Codes and renewals have their own limit")
  func known() {
    for origin in [Request.Origin.code, .renewal] {
      #expect(PendingEnrolments.judge(request(-1, origin), among: full(origin)) == .full)
      #expect(PendingEnrolments.judge(request(-1, .withoutCode), among: full(origin)) == .added)
    }
  }

  @Test("Decided requests take no room")
  func decided() {
    for state in [PendingEnrolments.State.rejected, .approved(certificateDER: [])] {
      let others = full(.withoutCode, state: state)
      #expect(PendingEnrolments.judge(request(-1, .withoutCode), among: others) == .added)
    }
  }

  @Test("The limit of an address applies to unknown devices only")
  func address() {
    let others = (0..<Limits.pendingEnrolmentsPerAddress).map { request($0, .withoutCode) }
    #expect(
      PendingEnrolments.judge(request(-1, .withoutCode), among: others) == .tooManyFromAddress)
    #expect(PendingEnrolments.judge(request(-1, .code), among: others) == .added)
    let elsewhere = request(-1, .withoutCode, address: "192.0.2.2")
    #expect(PendingEnrolments.judge(elsewhere, among: others) == .added)
  }
}
