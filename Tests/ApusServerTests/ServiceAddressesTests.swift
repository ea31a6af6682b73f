import ApusLoop
import ApusModel
import Foundation
import Testing

@testable import ApusDirectory

@Suite("Where a service listens")
struct ServiceAddressesTests {
  @Test(
    "A client on this machine uses a name in the certificate",
    arguments: [
      (
        "http2 production 0.0.0.0:2197\nname localhost\nname push.example\nprocess 7\n",
        "localhost", 2197
      ),
      ("http2 production [::]:2197\nname push.example\nname localhost\n", "localhost", 2197),
      ("http2 production 0.0.0.0:443\nname push.example\n", "push.example", 443),
      ("http2 production 192.0.2.7:443\nname push.example\nname 192.0.2.7\n", "192.0.2.7", 443),
      ("http2 production [2001:db8::1]:443\nname 2001:db8::1\n", "2001:db8::1", 443),
      ("http2 production 192.0.2.7:443\n", "192.0.2.7", 443),
      ("http2 development 127.0.0.1:2198\nname localhost\n", "localhost", 2198),
      (
        "http2 development 127.0.0.1:2198\nhttp2 production 127.0.0.1:2199\nname localhost\n",
        "localhost", 2199
      ),
      (
        "http2 production 0.0.0.0:2197 push.example.com\nhttp2 development 127.0.0.1:2198\n"
          + "name localhost\n", "push.example.com", 2197
      ),
    ] as [(String, String, UInt16)])
  func endpoint(text: String, host: String, port: UInt16) throws {
    let addresses = ServiceAddresses(text: text)
    let endpoint = try #require(addresses.endpoint(.provider))
    #expect(endpoint.host == host && endpoint.port == port)
    #expect(addresses.endpoint(.courier) == nil)
    #expect(addresses.text == text)
  }

  @Test(
    "Lines of a later version are skipped", arguments: ["", "x\n", "http2 production nowhere\n"])
  func unknown(text: String) {
    #expect(ServiceAddresses(text: text + "proxy a b c\n").endpoint(.provider) == nil)
  }

  @Test("Only the file of a running service is believed")
  func lock() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID())").path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let data = DataDirectory(path: path)
    let addresses = ServiceAddresses(
      listeners: [.init(.provider, .production, .loopbackIPv4(port: 1))], names: ["localhost"])
    #expect(data.serviceAddresses == nil)
    var file: ServiceAddressFile? = try data.announce(addresses)
    withExtendedLifetime(file) { #expect(data.serviceAddresses == addresses) }
    // A second service of the directory does not wait for the first.
    #expect(throws: FileError.self) { _ = try data.announce(addresses) }
    #expect(data.serviceAddresses == addresses)
    // As a process that is killed.
    file = nil
    #expect(data.serviceAddresses == nil)
    file = try data.announce(addresses)
    file?.remove()
    #expect(data.serviceAddresses == nil)
  }
}
