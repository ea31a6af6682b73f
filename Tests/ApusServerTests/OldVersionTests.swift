import ApusLog
import ApusModel
import ApusTLS
import ApusTesting
import Testing

/// Somebody whose legacy sender cannot connect finds out from the log what it needs.
@Suite("Refused clients of TLS 1.0 and 1.1")
struct OldVersionTests {
  private static let remedy =
    #"remedy="give legacy senders a listener with +legacy-tls (apus dev: --legacy-tls)""#

  /// The line about one failed handshake of a client limited to `version`.
  private func line(_ kind: ListenerKind, _ version: TLSVersion) throws -> String {
    let lines = LogLines()
    let service = try TestService(
      nil,
      .init {
        $0.logLevel = .info
        $0.logSink = lines.sink
      })
    defer { service.stop() }
    let protocols = kind == .courier ? [TestService.courierProtocol] : ["h2"]
    #expect(throws: RawFault.self) {
      try service.tls(kind, protocols: protocols) {
        $0.minimumVersion = .v1_0
        $0.maximumVersion = version
      }
    }
    try waitUntil("the line") { !lines.all("tls failed").isEmpty }
    return try #require(lines.all("tls failed").first)
  }

  @Test(
    "On a listener for legacy senders the log names the version and the remedy",
    arguments: [ListenerKind.gateway, .feedback], [TLSVersion.v1_0, .v1_1])
  func legacySenders(kind: ListenerKind, version: TLSVersion) throws {
    let line = try line(kind, version)
    #expect(line.contains("unsupported protocol"))
    #expect(line.contains(version == .v1_0 ? #"offered="TLS 1.0""# : #"offered="TLS 1.1""#))
    #expect(line.contains(Self.remedy), "\(line)")
  }

  @Test(
    "Other listeners cannot speak old versions, and name no remedy",
    arguments: [ListenerKind.provider, .channels, .courier])
  func others(kind: ListenerKind) throws {
    let line = try line(kind, .v1_0)
    #expect(line.contains("unsupported protocol"))
    #expect(!line.contains("remedy") && !line.contains("offered"), "\(line)")
  }

  @Test("A client of a new version that has no certificate gets no such hint")
  func newVersion() throws {
    let line = try line(.gateway, .v1_2)
    #expect(line.contains("did not return a certificate"))
    #expect(!line.contains("remedy"), "\(line)")
  }
}
