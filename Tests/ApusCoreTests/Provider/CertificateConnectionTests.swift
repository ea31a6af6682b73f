import ApusCore
import ApusModel
import Testing

struct CertificateConnectionTests {
  static let rows: [Spoiled] = [
    Spoiled("as it is", nil) { _ in },
    Spoiled("authorization is ignored, whatever it says", nil) {
      $0.set(.authorization, "bearer nonsense")
      $0.provider = nil
    },
    Spoiled("no authorization", nil) { $0.remove(.authorization) },
    Spoiled("authorization twice", .duplicateHeaders) { $0.double(.authorization) },
    Spoiled("default topic", nil) { $0.remove(.apnsTopic) },
    Spoiled("empty topic", .missingTopic) { $0.set(.apnsTopic, "") },
    Spoiled("listed topic", nil) {
      $0.set(.apnsTopic, "com.example.mail.voip")
      $0.set(.apnsPushType, "voip")
      $0.claims = World.claims(World.app, .voip)
    },
    Spoiled("suffix that is not listed", .topicDisallowed) {
      $0.set(.apnsTopic, "com.example.mail.complication")
      $0.set(.apnsPushType, "complication")
      $0.claims = World.claims(World.app, .complication)
    },
    Spoiled("other app of the team", .topicDisallowed) {
      $0.set(.apnsTopic, "com.example.chat")
      $0.claims = World.claims(World.secondApp)
    },
    Spoiled("app of another team", .topicDisallowed) { $0.set(.apnsTopic, "net.foreign.app") },
    Spoiled("voip to the default topic", .topicDisallowed) {
      $0.remove(.apnsTopic)
      $0.set(.apnsPushType, "voip")
    },
  ]

  @Test("A certificate covers its topics and no others", arguments: rows)
  func row(_ row: Spoiled) throws {
    var driver = try Driver(certificate: World.certificate(listed: ["com.example.mail.voip"]))
    #expect(driver.isTrusted == true)
    var request = Request()
    row.spoil(&request)
    #expect(driver.reason(request) == row.reason)
  }

  @Test("A certificate with several topics has no default topic")
  func several() throws {
    var driver = try Driver(
      certificate: World.certificate(
        listed: ["com.example.mail", "com.example.mail.voip"], several: true))
    #expect(driver.reason(Request()) == nil)
    var request = Request()
    request.remove(.apnsTopic)
    #expect(driver.reason(request) == .missingTopic)
  }

  @Test("The default topic decides the payload limit")
  func voipDefault() throws {
    var driver = try Driver(certificate: World.certificate("com.example.mail.voip"))
    var request = Request()
    request.remove(.apnsTopic)
    request.remove(.apnsPushType)
    request.claims = World.claims(World.app, .voip)
    request.pad(toByteCount: 5120)
    #expect(driver.reason(request) == nil)
    request.pad(toByteCount: 5121)
    #expect(driver.reason(request) == .payloadTooLarge)
  }

  @Test("A certificate of the other environment is rejected before any request")
  func environment() {
    let refusal = #expect(throws: Refusal.self) {
      _ = try Driver(certificate: World.certificate(environments: .development))
    }
    #expect(refusal?.reason == .badCertificateEnvironment)
  }

  @Test("A revoked certificate is rejected at the handshake, and on an open connection")
  func revoked() throws {
    let revoking = World.directory(generation: 2) {
      $0.revokedCertificates = [World.fingerprint(1)]
    }
    let refusal = #expect(throws: Refusal.self) {
      _ = try Driver(certificate: World.certificate(), directory: revoking)
    }
    #expect(refusal?.reason == .badCertificate)

    var driver = try Driver(certificate: World.certificate())
    #expect(driver.reason(Request()) == nil)
    #expect(driver.reexamine() == nil)
    driver.directory = revoking
    #expect(driver.reason(Request()) == .badCertificate)
    #expect(driver.reexamine()?.reason == .badCertificate)
  }

  @Test("Removing an authority rejects its certificates and no others")
  func authorityRemoved() throws {
    var driver = try Driver(certificate: World.certificate())
    driver.directory = World.directory(generation: 2) { $0.authorities = [World.authority] }
    #expect(driver.reexamine() == nil)
    #expect(driver.reason(Request()) == nil)
    let without = World.directory(generation: 3) { $0.authorities = [World.otherAuthority] }
    driver.directory = without
    #expect(driver.reexamine() == Refusal(.certificateAuthority))
    #expect(driver.reason(Request()) == .badCertificate)
    #expect(throws: Refusal(.certificateAuthority)) {
      _ = try Driver(certificate: World.certificate(), directory: without)
    }
  }

  @Test(
    "A certificate that either of two authorities may have issued loses trust with either of them")
  func unknownAuthority() throws {
    var certificate = World.certificate()
    certificate.authorities = [World.authority, World.otherAuthority]
    var driver = try Driver(certificate: certificate)
    #expect(driver.reexamine() == nil)
    driver.directory = World.directory(generation: 2) { $0.authorities = [World.authority] }
    #expect(driver.reexamine() == Refusal(.certificateAuthority))
  }

  @Test("A certificate is valid in its last second, and not in the next")
  func expired() throws {
    var driver = try Driver(certificate: World.certificate())
    driver.now = World.certificateEnd
    #expect(driver.reexamine() == nil)
    driver.now += 1
    #expect(driver.reexamine() == Refusal(.certificateExpired))
    #expect(driver.reason(Request()) == .badCertificate)
    // A clock that was wrong revokes nothing that the handshake would accept.
    driver.now -= 1
    #expect(driver.reexamine() == nil)
    #expect(driver.reason(Request()) == nil)
  }

  @Test("An app may be registered or moved while the connection is open")
  func laterApp() throws {
    var driver = try Driver(certificate: World.certificate("com.example.later"))
    var request = Request()
    request.remove(.apnsTopic)
    request.claims = World.claims(AppID(9))
    #expect(driver.reason(request) == .topicDisallowed)
    driver.directory = World.directory(generation: 2) {
      $0.apps.append(
        App(id: AppID(9), bundleID: Array("com.example.later".utf8), team: World.team))
    }
    #expect(driver.reason(request) == nil)
    driver.directory = World.directory(generation: 3) {
      $0.apps.append(
        App(id: AppID(9), bundleID: Array("com.example.later".utf8), team: World.otherTeam))
    }
    #expect(driver.reason(request) == .topicDisallowed)
  }
}
