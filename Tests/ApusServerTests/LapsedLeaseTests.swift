import ApusModel
import ApusStore
import ApusTesting
import Testing

@testable import ApusServer

/// A process that did not renew its lease in time does not know yet whether another one has taken over.
@Suite("A service that another one may have taken over from", .timeLimit(.minutes(30)))
struct LapsedLeaseTests {
  private let lease = StoreLease(takenAtMilliseconds: 0, validMilliseconds: 1)

  private func renew() { lease.renewed(sentAtMilliseconds: .max - 1) }

  @Test("It does not say that a token is dead, and what a device acknowledges is accepted")
  func tokens() throws {
    let directory = try TestDirectory()
    let service = try TestService(directory, .init { $0.store = MemoryStore(lease: lease) })
    defer { service.stop() }
    let device = try service.connect()
    let good = try device.token()
    let id = device.device.id
    let provider = try service.provider()
    func statuses() throws -> [Int?] {
      let tokens = [
        good, directory.deviceToken(id, generation: 9).hex, directory.deviceToken(id, app: 2).hex,
        String(good.dropLast(2)),
      ]
      return try tokens.map { token in
        try provider.exchange(
          service.pushHeaders(to: token, authorization: service.authorization()),
          body: TestService.payload
        ).status
      }
    }
    // What the token itself says does not change.
    #expect(try statuses() == [200, 503, 400, 400])
    renew()
    #expect(try statuses() == [200, 410, 400, 400])
    try device.settle()
  }

  @Test("It does not say that there is no such channel")
  func channels() throws {
    let service = try BroadcastService(nil, .init { $0.store = MemoryStore(lease: lease) })
    defer { service.service.stop() }
    let provider = try service.provider()
    let channel = "AAAAAAAAAAAAAAAAAAAAAA=="
    expectRefusal(try provider.broadcast(channel), "503 ServiceUnavailable")
    renew()
    expectRefusal(try provider.broadcast(channel), "400 ChannelNotRegistered")
  }
}
