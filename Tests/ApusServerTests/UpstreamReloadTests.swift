import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import ApusTrust
import Testing

@Suite("Upstreams in a running service")
struct UpstreamReloadTests {
  @Test("The service notices a new upstream, a key that is replaced, and the removal by itself")
  func reload() throws {
    let service = try TestService()
    defer { service.stop() }
    let data = service.directory.data
    func credential() -> Upstream.Credential? {
      service.service.trust()?.upstreams[AppID(1)]?.credential
    }
    #expect(credential() == nil)
    let key = try PrivateKey.generateP256().pkcs8PEM
    var change = UpstreamChange()
    (change.service, change.keyPEM) = (.apple, key)
    (change.keyID, change.team) = (ShortID("UPSTREAM01"), ShortID("APPLETEAM1"))
    try data.changeApp(TestDirectory.topic, upstream: .set(change))
    try waitUntil("the upstream") {
      credential() == .key(pem: key, id: "UPSTREAM01", team: "APPLETEAM1")
    }
    let next = try PrivateKey.generateP256().pkcs8PEM
    let file = "\(data.path)/upstreams/\(TestDirectory.topic).p8"
    // The record does not change. What cannot be read leaves the key before in use.
    try Files.write("half a key", to: file, isPrivate: true)
    try waitUntil("the failed reload") { service.service.staleness() != nil }
    #expect(credential() == .key(pem: key, id: "UPSTREAM01", team: "APPLETEAM1"))
    try Files.write(next, to: file, isPrivate: true)
    try waitUntil("the replaced key") {
      credential() == .key(pem: next, id: "UPSTREAM01", team: "APPLETEAM1")
        && service.service.staleness() == nil
    }
    try data.changeApp(TestDirectory.topic, upstream: .remove)
    try waitUntil("the removal") { credential() == nil }
  }
}
