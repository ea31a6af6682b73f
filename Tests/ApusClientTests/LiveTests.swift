import ApusCore
import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTrust
import Testing

@testable import ApusClient

@Suite("A client and a service", .timeLimit(.minutes(30)), .serialized)
struct LiveTests {
  private static let payload = AlertPayload(title: "Title", body: "Body").bytes

  enum Kind: CaseIterable { case token, certificate }

  private func credential(
    _ kind: Kind, _ live: LiveService
  ) throws -> ClientConfiguration.Credential {
    switch kind {
    case .token: try live.tokenCredential()
    case .certificate: try live.certificateCredential()
    }
  }

  @Test("A push is accepted, and the device receives it", arguments: Kind.allCases)
  func accepted(kind: Kind) async throws {
    let live = try LiveService()
    let device = try live.device()
    try device.start()
    let token = try await device.token(for: LiveService.topic)
    let client = try APNSClient(try live.configuration(credential(kind, live)))
    var request = PushRequest(token: token, topic: LiveService.topic, payload: Self.payload)
    let id = NotificationID(high: 0x1111_2222_3333_4444, low: 0x8555_6666_7777_8888)
    request.id = id
    request.priority = .powerSaving
    guard case .accepted(apnsID: id, uniqueID: let unique?) = try await client.send(request) else {
      Issue.record("not accepted")
      return
    }
    let uniqueText = Array(unique.utf8)
    #expect(NotificationID(text: uniqueText.span) != nil)
    var notifications = device.notifications.makeAsyncIterator()
    let notification = try #require(await notifications.next())
    #expect(notification.payload == Self.payload)
    #expect(notification.apnsID == id)
    #expect(notification.priority == .powerSaving)
    await client.close()
    await device.stop()
  }

  @Test("The token of a missing device is rejected with a timestamp", arguments: Kind.allCases)
  func unregistered(kind: Kind) async throws {
    let live = try LiveService()
    let client = try APNSClient(try live.configuration(credential(kind, live)))
    let outcome = try await client.send(
      PushRequest(
        token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload))
    guard case .rejected(let rejection) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(rejection.reason.known == .unregistered)
    #expect(rejection.status == 410)
    #expect(try #require(rejection.timestampMilliseconds) > 1_600_000_000_000)
    await client.close()
  }

  @Test("The token of another service is rejected")
  func foreignToken() async throws {
    let live = try LiveService()
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let outcome = try await client.send(
      PushRequest(
        token: String(repeating: "0a", count: 32), topic: LiveService.topic,
        payload: Self.payload))
    guard case .rejected(let rejection) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(rejection.reason == RejectionReason(.badDeviceToken))
    #expect(rejection.status == 400)
    #expect(rejection.timestampMilliseconds == nil)
    await client.close()
  }

  @Test("200 concurrent pushes succeed on a connection that starts with one stream")
  func manyAtOnce() async throws {
    let live = try LiveService()
    let device = try live.device()
    try device.start()
    let token = try await device.token(for: LiveService.topic)
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let outcomes = try await withThrowingTaskGroup(of: SendOutcome.self) { group in
      for _ in 0..<200 {
        group.addTask {
          try await client.send(
            PushRequest(token: token, topic: LiveService.topic, payload: Self.payload))
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    var ids: Set<NotificationID> = []
    for outcome in outcomes {
      guard case .accepted(apnsID: let id, _) = outcome else {
        Issue.record("\(outcome)")
        continue
      }
      ids.insert(id)
    }
    #expect(ids.count == 200)
    await client.close()
    await device.stop()
  }

  @Test("A service with an untrusted certificate receives nothing, and the error says why")
  func wrongAuthority() async throws {
    let live = try LiveService()
    var configuration = try live.configuration(try live.tokenCredential())
    let foreign = try CertificateAuthority.create(
      commonName: "Foreign", validity: Validity(now: LiveService.nowSeconds, days: 1))
    configuration.trustRoots = .pem(Array(foreign.certificate.pem.utf8))
    let client = try APNSClient(configuration)
    let outcome = try await client.send(
      PushRequest(
        token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload))
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("the service's certificate is not trusted: "))
    await client.close()
  }

  @Test("A service with a different name receives nothing")
  func wrongName() async throws {
    let live = try LiveService()
    var configuration = try live.configuration(try live.tokenCredential())
    configuration.serverName = "push.example.org"
    let client = try APNSClient(configuration)
    let outcome = try await client.send(
      PushRequest(
        token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload))
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("mismatch"))
    await client.close()
  }

  @Test("A certificate for the other environment is rejected with the service's reason")
  func wrongEnvironment() async throws {
    let live = try LiveService()
    let client = try APNSClient(
      try live.configuration(try live.certificateCredential(environments: .production)))
    let outcome = try await client.send(
      PushRequest(
        token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload))
    guard case .rejected(let rejection) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(rejection.reason.known == .badCertificateEnvironment)
    await client.close()
  }

  @Test("A client certificate of an unknown authority is refused, and the error says so")
  func unknownCertificate() async throws {
    let live = try LiveService()
    let foreign = try CertificateAuthority.create(
      commonName: "Foreign", validity: Validity(now: LiveService.nowSeconds, days: 1))
    let key = try PrivateKey.generateP256()
    let certificate = try foreign.issueProvider(
      ProviderCertificateRequest(
        bundleID: LiveService.topic, teamID: live.provisioned.teamID.text,
        publicKey: key.publicKey, validity: Validity(now: LiveService.nowSeconds, days: 1)))
    let client = try APNSClient(
      try live.configuration(
        .certificate(
          certificatePEM: Array(certificate.pem.utf8), keyPEM: Array(key.pkcs8PEM.utf8))))
    let outcome = try await client.send(
      PushRequest(
        token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload))
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("TLS alert"))
    await client.close()
  }

  @Test("Without a listener, the error contains the address")
  func nobodyThere() async throws {
    let live = try LiveService()
    var configuration = try live.configuration(try live.tokenCredential(), host: "127.0.0.1")
    live.stop()
    configuration.sendTimeoutSeconds = 20
    let client = try APNSClient(configuration)
    let outcome = try await client.send(
      PushRequest(token: "0a", topic: LiveService.topic, payload: Self.payload))
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("127.0.0.1:\(configuration.endpoint.port)"))
    await client.close()
  }

  @Test("A closed client sends nothing more, and may be closed twice")
  func closed() async throws {
    let live = try LiveService()
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let request = PushRequest(
      token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload)
    async let first = client.send(request)
    guard case .rejected = try await first else {
      Issue.record("no answer")
      return
    }
    await client.close()
    await client.close()
    #expect(
      try await client.send(request)
        == .unknown(UnknownCause(.clientClosed), retryMayDuplicate: false))
  }

  @Test("A client continues after the service restarts")
  func reconnects() async throws {
    let live = try LiveService()
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let request = PushRequest(
      token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload)
    guard case .rejected = try await client.send(request) else {
      Issue.record("no answer")
      return
    }
    try live.restart()
    guard case .rejected(let rejection) = try await client.send(request) else {
      Issue.record("no answer after the restart")
      return
    }
    #expect(rejection.reason.known == .unregistered)
    await client.close()
  }

  @Test("A cancelled task stops waiting")
  func cancelled() async throws {
    let live = try LiveService()
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let request = PushRequest(
      token: try live.tokenOfNobody(), topic: LiveService.topic, payload: Self.payload)
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await client.send(request)
    }
    #expect(
      try await task.value == .unknown(UnknownCause(.cancelled), retryMayDuplicate: false))
    await client.close()
  }
}
