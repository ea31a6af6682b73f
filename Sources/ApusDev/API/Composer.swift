import ApusClient
import ApusLoop
import ApusModel
import Synchronization

/// Sends pushes as a provider, through the provider listener. May be used from any thread.
final class Composer: Sendable {
  private let clients = Mutex<[Environment: Sender]>([:])
  private let settings: Settings

  private struct Sender {
    var client: APNSClient
    /// The clock's offset at the last push.
    var offsetMilliseconds: Int64
  }

  struct Settings: Sendable {
    var host: String
    var ports: [Environment: UInt16]
    var authorityPEM: [UInt8]
    var keyFile: String
    var keyID: String
    var team: String
    /// The clock by which the service checks tokens.
    var clock: ServiceClock
  }

  private static let timeoutSeconds = 10

  init(_ settings: Settings) { self.settings = settings }

  private func client(_ environment: Environment) throws(DevProblem) -> APNSClient {
    guard let port = settings.ports[environment] else {
      throw DevProblem(.conflict, "the provider listener for \(environment.name) is off")
    }
    do {
      let offset = settings.clock.offsetMilliseconds
      return try clients.withLock { clients in
        if let sender = clients[environment] {
          clients[environment]?.offsetMilliseconds = offset
          if offset >= sender.offsetMilliseconds { return sender.client }
          // Its connections have used a token that is now in the future, and may not switch to another one so soon.
          Task { await sender.client.close() }
        }
        var configuration = ClientConfiguration(
          endpoint: Endpoint(host: settings.host, port: port),
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
