import ApusClient
import ApusLoop
import ApusModel
import Synchronization

/// Sends pushes as a provider does, over the provider door. Any thread.
final class Composer: Sendable {
  private let clients = Mutex<[Environment: Sender]>([:])
  private let settings: Settings

  private struct Sender {
    var client: APNSClient
    /// Where the clock was when it last sent.
    var offsetMilliseconds: Int64
  }

  struct Settings: Sendable {
    var ports: [Environment: UInt16]
    var authorityPEM: [UInt8]
    var keyFile: String
    var keyID: String
    var team: String
    /// By which the service judges tokens.
    var clock: ServiceClock
  }

  private static let timeoutSeconds = 10

  init(_ settings: Settings) { self.settings = settings }

  private func client(_ environment: Environment) throws(DevProblem) -> APNSClient {
    guard let port = settings.ports[environment] else {
      throw DevProblem(.conflict, "there is no provider listener for \(environment.name)")
    }
    do {
      let offset = settings.clock.offsetMilliseconds
      return try clients.withLock { clients in
        if let sender = clients[environment] {
          clients[environment]?.offsetMilliseconds = offset
          if offset >= sender.offsetMilliseconds { return sender.client }
          // Its connections have shown a token that is of the future now, and may not show another one so soon.
          Task { await sender.client.close() }
        }
        var configuration = ClientConfiguration(
          endpoint: Endpoint(host: StandInFacts.host, port: port),
          trustRoots: .pem(settings.authorityPEM),
          credential: .providerTokenFile(
            path: settings.keyFile, keyID: settings.keyID, teamID: settings.team))
        configuration.sendTimeoutSeconds = Self.timeoutSeconds
        configuration.retriesRefusals = false
        configuration.clock = settings.clock
        let client = try APNSClient(configuration)
        clients[environment] = Sender(client: client, offsetMilliseconds: offset)
        return client
      }
    } catch {
      throw DevProblem(.failed, "\(error)")
    }
  }

  func send(
    _ push: PushRequest, to environment: Environment
  ) async throws(DevProblem) -> SendOutcome {
    let client = try client(environment)
    do throws(PushRequestError) {
      return try await client.send(push)
    } catch {
      throw DevProblem(.invalid, "\(error)", field: "\(error.code)")
    }
  }

  func stop() {
    clients.withLock { clients in
      for sender in clients.values { sender.client.closeImmediately() }
      clients = [:]
    }
  }
}
