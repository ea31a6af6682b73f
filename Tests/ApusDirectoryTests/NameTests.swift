import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import Testing

@testable import ApusTrust

/// Legacy senders compare parts of names.
@Suite("Names of the service authority and of providers' certificates")
struct NameTests {
  private let data: DataDirectory
  private let temporary = TemporaryDirectory()
  private let now = DataDirectory.nowSeconds

  init() { data = DataDirectory(path: "\(temporary.path)/data") }

  private func initialize(authorityName: String? = nil) throws -> ProvisionedService {
    try data.initialize(
      names: ["localhost"], topic: "com.example.app", teamName: "Test",
      authorityName: authorityName, nowSeconds: now)
  }

  private func issue(_ service: ProvisionedService, commonName: String?) throws -> Certificate {
    try data.issueProvider(
      topic: service.topic, team: service.teamID, extraTopics: nil, environments: .both,
      commonName: commonName, nowSeconds: now
    ).certificate
  }

  /// The names of all service authorities, the one that issues first.
  private func authorities() throws -> [String?] {
    try data.certificates(of: .service).map(\.subject.commonName)
  }

  @Test("Without options the names are those of Apus")
  func usual() throws {
    let certificate = try issue(initialize(), commonName: nil)
    #expect(try authorities() == ["Apus service authority"])
    #expect(certificate.subject.commonName == "Apus Push Services: com.example.app")
  }

  @Test("Given names are used for the service authority and the certificate, and for nothing else")
  func given() throws {
    let service = try initialize(authorityName: "Apus for Apple")
    #expect(try authorities() == ["Apus for Apple"])
    #expect(
      try data.certificates(of: .devices).map(\.subject.commonName) == ["Apus device authority"])
    let certificate = try issue(service, commonName: "Apple Push Services: com.example.app")
    let issuer = try data.authority(.service).certificate
    #expect(certificate.issuerDER == issuer.subjectDER)
    #expect(certificate.subject.commonName == "Apple Push Services: com.example.app")
    let provider = try ProviderCertificate(certificate)
    #expect(provider.topics == ["com.example.app"])
    #expect(provider.teamID == service.teamID.text)
  }

  @Test("A rotation numbers the given name, or takes another one")
  func rotation() throws {
    let service = try initialize(authorityName: "Apus for Apple")
    _ = try data.rotateAuthority(.service, nowSeconds: now)
    _ = try data.rotateAuthority(.service, named: "Push for Apple", nowSeconds: now)
    #expect(try authorities() == ["Push for Apple", "Apus for Apple 2", "Apus for Apple"])
    let certificate = try issue(service, commonName: nil)
    let issuer = try data.authority(.service).certificate
    #expect(issuer.subject.commonName == "Push for Apple")
    #expect(certificate.issuerDER == issuer.subjectDER)
  }
}
