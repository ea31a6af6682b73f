import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

@testable import ApusDev

// Providers that see each frame and packet, where a library would hide errors.

extension Bench {
  private func tls(
    _ kind: ListenerKind, protocols: [String], identity: TLSIdentity?
  ) throws -> RawTLSClient {
    let port = try #require(facts.port(kind, .production))
    return try RawTLSClient(
      .loopbackIPv4(port: port),
      TLSClientConfiguration(
        trustRoots: .authorities(PEM: bytes(of: facts.authorityFile)), identity: identity,
        applicationProtocols: protocols, serverName: "localhost"))
  }

  private func bytes(of file: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: URL(fileURLWithPath: file)))
  }

  // MARK: HTTP/2

  func rawProvider(_ kind: ListenerKind = .provider) throws -> RawHTTP2Client {
    let provider = RawHTTP2Client(try tls(kind, protocols: ["h2"], identity: nil))
    try provider.begin()
    return provider
  }

  /// The value of `authorization`.
  func authorization() async throws -> String {
    "bearer " + (try await ask("POST", "/api/v1/tokens/provider?format=text").text)
  }

  func headers(_ token: String, _ authorization: String) -> [RawHeader] {
    [
      RawHeader(.method, "POST"), RawHeader(.scheme, "https"),
      RawHeader(.path, "/3/device/\(token)"), RawHeader(.authority, "localhost"),
      RawHeader(.apnsTopic, Self.topic), RawHeader(.apnsPushType, "alert"),
      RawHeader(.authorization, authorization),
    ]
  }

  static let alert = Array(#"{"aps":{"alert":"hi"}}"#.utf8)

  // MARK: The binary interface

  /// The certificate that the development service provides for legacy senders.
  private func identity() throws -> TLSIdentity {
    let pem = try bytes(of: facts.certificateFile)
    return TLSIdentity(certificateChainPEM: pem, privateKeyPEM: pem)
  }

  /// A certificate for the app from an authority that the development service does not know.
  static func foreignIdentity() throws -> TLSIdentity {
    let validity = Validity(now: Int64(Date().timeIntervalSince1970), days: 1)
    let key = try PrivateKey.generateP256()
    let certificate = try CertificateAuthority.create(
      commonName: "Somebody else", validity: validity
    )
    .issueProvider(
      ProviderCertificateRequest(
        bundleID: topic, teamID: "FOREIGN123", environments: .both, topics: nil,
        publicKey: key.publicKey, validity: validity))
    return TLSIdentity(
      certificateChainPEM: Array(certificate.pem.utf8), privateKeyPEM: Array(key.pkcs8PEM.utf8))
  }

  func gateway(_ other: TLSIdentity? = nil) throws -> RawGatewayClient {
    RawGatewayClient(try tls(.gateway, protocols: [], identity: other ?? identity()))
  }

  /// Command 1 of Apple's Legacy Notification Format: identifier, expiration, token, payload.
  static func frame(_ identifier: UInt8, _ token: String) -> [UInt8] {
    let token = stride(from: 0, to: token.utf8.count, by: 2).compactMap { offset in
      UInt8(token.dropFirst(offset).prefix(2), radix: 16)
    }
    return [1, 0, 0, 0, identifier, 0x7f, 0xff, 0xff, 0xff, 0, UInt8(token.count)] + token
      + [0, UInt8(alert.count)] + alert
  }

  /// The feedback list, left in place: the connection is reset, so the service does not count it as read.
  func feedback(_ other: TLSIdentity? = nil) throws -> [RawFeedbackTuple] {
    let reader = try tls(.feedback, protocols: [], identity: other ?? identity())
    let (bytes, end) = try reader.receiveAll()
    guard end == .closeNotify else { throw RawFault.ended(end, awaiting: "the end of the list") }
    reader.reset()
    return try RawFeedbackTuple.list(bytes)
  }

  // MARK: Faults

  /// Arms an effect; returns the id of the rule.
  @discardableResult
  func arm(
    _ effect: String, match: String? = nil, _ members: String = "", name: String = "armed"
  ) async throws -> String {
    let match = match.map { ",\"match\":\($0)" } ?? ""
    let answer = try await ask(
      "POST", "/api/v1/faults", "{\"name\":\"\(name)\",\"effect\":\(effect)\(match)\(members)}")
    try #require(answer.status == 201, "\(effect): \(answer.text)")
    return try #require(answer.json["id"]?.string)
  }

  func disarm() async throws {
    #expect(try await ask("DELETE", "/api/v1/faults").status == 200)
    #expect(try await ask("DELETE", "/api/v1/pushes").status == 200)
  }
}
