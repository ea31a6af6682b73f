import ApusCore
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Synchronization
import Testing

@testable import ApusClient

/// A service with two gateways: a silent one, and one that confirms.
final class BinaryBench {
  enum Gateway: Int { case silent, confirming }

  let service: TestService
  let identity: TLSIdentity

  init(workers: Int = 2) throws {
    var confirming = BinaryRules.standard
    confirming.confirmsAccepted = true
    service = try TestService(
      nil,
      .init {
        $0.gatewayRules = [.standard, confirming]
        $0.workers = workers
      })
    identity = try service.directory.providerIdentity()
  }

  deinit { service.service.stop() }

  var credential: ClientConfiguration.Credential {
    .certificate(
      certificatePEM: identity.certificateChainPEM, keyPEM: identity.privateKeyPEM)
  }

  var trustRoots: ClientConfiguration.TrustRoots {
    .pem(Array(service.directory.serviceAuthority.certificate.pem.utf8))
  }

  func configuration(
    _ gateway: Gateway = .silent, _ command: BinaryClientConfiguration.Command = .framed,
    change: (inout BinaryClientConfiguration) -> Void = { _ in }
  ) -> BinaryClientConfiguration {
    let address = service.address(.gateway, .production, listener: gateway.rawValue)
    var configuration = BinaryClientConfiguration(
      endpoint: Endpoint(host: "127.0.0.1", port: address.port), trustRoots: trustRoots,
      credential: credential)
    configuration.command = command
    configuration.expectsConfirmations = gateway == .confirming
    // Longer than a test may take, so every acceptance here is proven.
    configuration.silenceMilliseconds = 25_000
    change(&configuration)
    return configuration
  }

  /// A push to its own device; the token of a bad one was not issued by this service.
  func push(_ number: Int, isBad: Bool = false) -> PushRequest {
    var token = service.directory.deviceToken(DeviceID(UInt64(number) + 1))
    if isBad { token.words.3 ^= 1 }
    var push = PushRequest(token: token, topic: nil, payload: AlertPayload(body: "x").bytes)
    push.id = Bench.id(UInt64(number))
    return push
  }

  /// Notifications accepted by the service.
  var acceptedCount: UInt64 {
    service.service.topicCounters().reduce(0) { $0 + $1.accepted }
  }
}

@Suite("The binary client and the gateway", .timeLimit(.minutes(30)))
struct BinaryLiveTests {
  @Test("A confirmed push gets its outcome immediately", arguments: [1, 3])
  func confirmed(connections: Int) async throws {
    let bench = try BinaryBench()
    let client = try BinaryClient(bench.configuration(.confirming) { $0.connections = connections })
    for number in 0..<3 {
      #expect(
        try await client.send(bench.push(number))
          == .accepted(apnsID: Bench.id(UInt64(number)), uniqueID: nil))
    }
    await client.close()
    #expect(bench.acceptedCount == 3)
    #expect(client.statistics.accepted == 3)
    #expect(client.statistics.connections == 1)
  }

  @Test("Each push of an array has one outcome, even if more wait than there is room for")
  func array() async throws {
    let bench = try BinaryBench()
    let client = try BinaryClient(
      bench.configuration(.confirming) {
        $0.windowCapacity = 16
        $0.queueCapacity = 8
      })
    // More than one claim covers.
    var pushes = (0..<300).map { bench.push($0, isBad: $0 == 40) }
    pushes[170].token = "none"
    var results: [Int: Result<SendOutcome, PushRequestError>] = [:]
    for await outcome in client.send(all: pushes) {
      #expect(results.updateValue(outcome.result, forKey: outcome.index) == nil)
    }
    #expect(Set(results.keys) == Set(0..<300))
    for (index, result) in results {
      switch result {
      case .success(.accepted(let id, _)): #expect(id == Bench.id(UInt64(index)))
      case .success(.rejected(let rejection)):
        #expect(index == 40 && rejection.apnsID == Bench.id(40))
      case .success(.unknown(let cause, _)): Issue.record("push \(index): \(cause)")
      case .failure(let error): #expect(index == 170 && error.code == .invalidToken)
      }
    }
    await client.close()
    #expect(bench.acceptedCount == 298)
  }

  @Test(
    "Each bad push is rejected by name, and all others are accepted once",
    arguments: [
      (BinaryBench.Gateway.silent, BinaryClientConfiguration.Command.framed, 1),
      (.silent, .enhanced, 1), (.confirming, .framed, 1), (.silent, .framed, 3),
      (.confirming, .enhanced, 3),
    ])
  func mixed(
    gateway: BinaryBench.Gateway, command: BinaryClientConfiguration.Command, connections: Int
  ) async throws {
    let bench = try BinaryBench()
    let client = try BinaryClient(
      bench.configuration(gateway, command) {
        $0.connections = connections
        $0.windowCapacity = 64
      })
    let isBad = { (number: Int) in number % 50 == 7 }
    let pushes = (0..<300).map { bench.push($0, isBad: isBad($0)) }
    let outcomes = try await client.outcomesAndClose(pushes)
    var rejection = PushRejection(
      reason: RejectionReason(.badDeviceToken), status: 400, apnsID: Bench.id(0))
    rejection.binaryStatus = BinaryStatus.invalidToken.rawValue
    let expected = (0..<300).map { number -> SendOutcome in
      rejection.apnsID = Bench.id(UInt64(number))
      return isBad(number)
        ? .rejected(rejection) : .accepted(apnsID: rejection.apnsID, uniqueID: nil)
    }
    let wrong = zip(outcomes, expected).first { $0 != $1 }
    #expect(wrong == nil)
    #expect(bench.acceptedCount == 294)
  }
}

extension BinaryClient {
  /// Sends all pushes, closes once all were taken, and returns the outcomes in order.
  func outcomesAndClose(_ pushes: [PushRequest]) async throws -> [SendOutcome?] {
    let (closed, end) = AsyncStream<Void>.makeStream()
    let next = Mutex(0)
    let source = AsyncStream<PushRequest> {
      let index = next.withLock { next in
        defer { next += 1 }
        return next
      }
      if index < pushes.count { return pushes[index] }
      Task {
        await self.close()
        end.finish()
      }
      return nil
    }
    var outcomes = [SendOutcome?](repeating: nil, count: pushes.count)
    for try await result in send(all: source) {
      #expect(outcomes[result.index] == nil, "push \(result.index) has one outcome")
      outcomes[result.index] = try result.result.get()
    }
    for await _ in closed {}
    return outcomes
  }
}
