import ApusDirectory
import ApusModel
import ApusTesting
import Testing

@Suite("Device tokens of a restored service")
struct RestoredTokenTests {
  private let directory: TestDirectory
  private let temporary = TemporaryDirectory()
  private let durable = TestService.Options { $0.isEphemeral = false }
  private var target: String { "\(temporary.path)/backup" }

  init() throws { directory = try TestDirectory() }

  private func withService<Value>(_ body: (TestService) throws -> Value) throws -> Value {
    let service = try TestService(directory, durable)
    defer { service.stop() }
    return try body(service)
  }

  /// The status of a push that is not stored.
  private func push(_ service: TestService, _ token: String) throws -> Int? {
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "0")
    return try service.provider().exchange(headers, body: TestService.payload).status
  }

  /// Connects a device whose app is installed, and returns its token.
  private func install(
    _ service: TestService, _ device: TestDevice? = nil
  ) throws -> (TestDevice, String) {
    let connected = try service.connect(device)
    let token = try connected.token()
    try connected.enable(TestDirectory.topic)
    connected.client.tls.reset()
    return (connected.device, token)
  }

  /// Removes and installs the app, and returns its new token.
  private func reinstall(_ service: TestService, _ device: TestDevice) throws -> String {
    let connected = try service.connect(device)
    try connected.enable(TestDirectory.topic)
    try connected.filter([])
    try connected.settle()
    let token = try connected.token()
    connected.client.tls.reset()
    return token
  }

  /// A backup; after it the app is reinstalled on a device, and installed and reinstalled on another one.
  ///
  /// - Returns: The tokens that died since, and those that were in use when the service stopped.
  private func backUpAndContinue() throws -> (
    devices: [TestDevice], dead: [String], current: [String]
  ) {
    let (device, old) = try withService { try install($0) }
    try directory.data.backUp(to: target)
    return try withService { service in
      let new = try reinstall(service, device)
      let (second, first) = try install(service)
      let next = try reinstall(service, second)
      for (token, status) in [(old, 410), (new, 200), (first, 410), (next, 200)] {
        #expect(try push(service, token) == status)
      }
      return ([device, second], [old, first], [new, next])
    }
  }

  @Test("No dead token comes back, and none is issued again")
  func ended() throws {
    let (devices, dead, current) = try backUpAndContinue()
    #expect(try directory.data.restore(target).endedTokens == 1)
    try withService { service in
      for token in dead + current { #expect(try push(service, token) == 410) }
      for device in devices {
        let (_, token) = try install(service, device)
        #expect(!(dead + current).contains(token))
        #expect(try push(service, token) == 200)
        // The app itself did not change, so it keeps its token.
        #expect(try install(service, device).1 == token)
        let renewed = try reinstall(service, device)
        #expect(!(dead + current + [token]).contains(renewed))
      }
      for token in dead + current { #expect(try push(service, token) == 410) }
    }
  }

  @Test("Tokens of the backup can be kept; those that were issued since are not issued again")
  func kept() throws {
    let (devices, dead, current) = try backUpAndContinue()
    #expect(try directory.data.restore(target, keepsTokens: true).endedTokens == 0)
    try withService { service in
      #expect(try push(service, dead[0]) == 200)
      for token in [dead[1]] + current { #expect(try push(service, token) == 410) }
      for device in devices {
        let token = try reinstall(service, device)
        #expect(!(dead + current).contains(token))
      }
    }
  }
}
