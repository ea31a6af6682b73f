import ApusModel
import Testing

@testable import ApusClient

@Suite("The channel client and the service", .timeLimit(.minutes(5)))
struct ChannelLiveTests {
  enum Credential: CaseIterable { case token, certificate }

  private func client(_ live: LiveService, _ credential: Credential) throws -> ChannelClient {
    switch credential {
    case .token: try ChannelClient(live.configuration(live.tokenCredential()))
    case .certificate: try ChannelClient(live.configuration(live.certificateCredential()))
    }
  }

  @Test("It creates, reads, lists and deletes channels", arguments: Credential.allCases)
  func life(credential: Credential) async throws {
    let live = try LiveService()
    let client = try client(live, credential)
    let app = LiveService.topic
    let newest = try await client.create(app: app, storage: .newest)
    let none = try await client.create(app: app, storage: .none)
    #expect(try await client.read(newest, app: app).storage == .newest)
    #expect(try await client.read(none, app: app).storage == .none)
    #expect(try await client.list(app: app) == [newest, none])
    try await client.delete(newest, app: app)
    #expect(try await client.list(app: app) == [none])
    await #expect { try await client.read(newest, app: app) } throws: { error in
      guard case .rejected(let rejection)? = (error as? ChannelError)?.kind else { return false }
      return rejection.reason == .channelNotRegistered && rejection.status == 400
    }
    await client.close()
  }

  @Test("A list of 3,000 channels, of more than the windows of a connection, comes whole")
  func list() async throws {
    let live = try LiveService()
    let client = try client(live, .token)
    for _ in 0..<3000 { _ = try await client.create(app: LiveService.topic, storage: .none) }
    #expect(try await Set(client.list(app: LiveService.topic)).count == 3000)
    await client.close()
  }
}
