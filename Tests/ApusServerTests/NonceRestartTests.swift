import ApusDirectory
import ApusServer
import ApusTesting
import Testing

/// A signed nonce is valid for one connection, across restarts.
@Suite("Signed nonces across restarts")
struct NonceRestartTests {
  private func answer(_ service: TestService, _ message: RawCourierFrame) throws -> [UInt8]? {
    let client = try service.courier(protocols: [TestService.inBandProtocol])
    try client.send(message)
    return try client.expect(0x08)[1]
  }

  @Test("A used nonce is refused after a restart, and after a second one")
  func restart() throws {
    let directory = try TestDirectory()
    let device = try directory.device(key: Shared.rsaKey)
    let message = try device.signedConnect()
    let options = TestService.Options { $0.isEphemeral = false }
    let first = try TestService(directory, options)
    #expect(try answer(first, message) == [0])
    first.stop()
    for _ in 1...2 {
      let next = try TestService(directory, options)
      #expect(try answer(next, message) == [2])
      #expect(try answer(next, device.signedConnect()) == [0])
      next.stop()
    }
  }

  @Test("A line truncated by a power loss does not prevent a start")
  func tornLine() throws {
    let directory = try TestDirectory()
    try Files.write(
      "00ff\nno digits\n00", to: "\(directory.data.path)/connect.nonces", isPrivate: true)
    let service = try TestService(directory, .init { $0.isEphemeral = false })
    defer { service.stop() }
    let message = try directory.device(key: Shared.rsaKey).signedConnect()
    #expect(try answer(service, message) == [0])
  }
}
