import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// Source: Establishing a certificate-based connection to APNs.
@Suite("Provider certificates")
struct ProviderCertificateTests {
  let service: TestService

  init() throws { service = try Shared.service }

  private func headers(topic: String = TestDirectory.topic) throws -> [RawHeader] {
    try service.pushHeaders(to: Shared.absentToken, topic: topic, authorization: nil)
  }

  @Test("A certificate is sufficient: authorization is ignored, and its topic is the default")
  func trusted() throws {
    let provider = try service.provider(identity: service.directory.providerIdentity())
    #expect(try provider.exchange(headers(), body: TestService.payload).status == 200)
    let requests = try [
      headers().without("apns-topic"), headers() + [RawHeader("authorization", "bearer rubbish")],
      headers() + [RawHeader("authorization", "")],
    ]
    for headers in requests {
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
    let foreign = try provider.exchange(
      headers(topic: TestDirectory.otherTopic), body: TestService.payload)
    expectRefusal(foreign, 400, "TopicDisallowed")
    // The stream limit is high from the start, and announced once.
    try provider.ping()
    let settings = provider.received.filter { $0.kind == 4 && !$0.isAcknowledgement }
    #expect(settings.map { $0.settingValues[3] } == [1000])
  }

  @Test("A certificate for several topics covers those, and requests must name one")
  func severalTopics() throws {
    let topics = TopicsExtension(entries: [
      .init(topic: TestDirectory.topic, labels: ["app"]),
      .init(topic: "\(TestDirectory.topic).voip", labels: ["voip"]),
    ])
    let provider = try service.provider(
      identity: service.directory.providerIdentity(topics: topics))
    let missing = try provider.exchange(
      headers().without("apns-topic"), body: TestService.payload)
    expectRefusal(missing, 400, "MissingTopic")
    #expect(try provider.exchange(headers(), body: TestService.payload).status == 200)
    let device = try service.connect()
    let voip = try service.pushHeaders(
      to: device.token("\(TestDirectory.topic).voip"), topic: "\(TestDirectory.topic).voip",
      authorization: nil
    ).setting("apns-push-type", "voip")
    #expect(try provider.exchange(voip, body: TestService.payload).status == 200)
    let unlisted = try provider.exchange(
      headers(topic: "\(TestDirectory.topic).complication"), body: TestService.payload)
    expectRefusal(unlisted, 400, "TopicDisallowed")
  }

  /// Reads what a refused provider gets: no answers to its requests, only the reason.
  private func expectRefused(
    _ environment: Environment, _ identity: TLSIdentity, _ reason: String
  ) throws {
    try withBystanders(service, environment) {
      let provider = try service.provider(environment, identity: identity)
      let end = try provider.end()
      let debugData = #"{"reason":"\#(reason)"}"#
      #expect(end.goAways == [RawGoAway(lastStream: 0, code: 0, debugData: debugData)])
      #expect(end.end == .closeNotify)
      // SETTINGS first, as in every capture.
      #expect(provider.received.first?.kind == 4)
      #expect(provider.received.filter { $0.kind == 7 }.count == 1)
    }
  }

  @Test(
    "A certificate for the other environment gets SETTINGS, GOAWAY with 38 bytes of JSON, the end",
    arguments: Environment.allCases)
  func environment(environment: Environment) throws {
    let identity = try service.directory.providerIdentity(
      environments: EnvironmentSet(environment.other))
    try expectRefused(environment, identity, "BadCertificateEnvironment")
    #expect(#"{"reason":"BadCertificateEnvironment"}"#.utf8.count == 38)
  }

  @Test("A certificate with a broken list of topics is refused")
  func brokenTopics() throws {
    let identity = try service.directory.providerIdentity(topics: TestDirectory.brokenTopics)
    try expectRefused(.production, identity, "BadCertificate")
  }

  @Test("A device's certificate is not valid for providers")
  func deviceCertificate() throws {
    // Of the authority for devices, so the handshake refuses it.
    try expectAlert(service.directory.device().identity, 48)
    // Signed by the authority for providers, but still not a push certificate.
    let device = try service.directory.device(authority: service.directory.serviceAuthority)
    try expectRefused(.production, device.identity, "BadCertificate")
  }

  /// RFC 8446, section 6.2: 45 certificate_expired, 48 unknown_ca.
  private func expectAlert(_ identity: TLSIdentity, _ alert: UInt8) throws {
    try withBystanders(service) {
      for version in [TLSVersion.v1_2, .v1_3] {
        let end: RawEnd?
        do {
          let client = try service.tls(.provider, protocols: ["h2"], identity: identity) {
            ($0.minimumVersion, $0.maximumVersion) = (version, version)
          }
          end = try client.receiveAll().end
        } catch RawFault.ended(let how, _) {
          end = how
        }
        #expect(end == .failed(.alertReceived(alert)), "\(version)")
      }
    }
  }

  @Test("A foreign or expired certificate ends the handshake")
  func untrusted() throws {
    let directory = service.directory
    try expectAlert(directory.providerIdentity(authority: directory.foreignAuthority), 48)
    try expectAlert(directory.providerIdentity(validity: TestDirectory.expired), 45)
  }
}
