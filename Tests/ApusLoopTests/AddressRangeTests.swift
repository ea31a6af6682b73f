import Testing

@testable import ApusLoop

@Suite("Ranges of addresses")
struct AddressRangeTests {
  @Test(
    "A range has the addresses of its family that begin with its bits",
    arguments: [
      ("192.0.2.7", "192.0.2.7:1", true), ("192.0.2.7", "192.0.2.6:1", false),
      ("192.0.2.0/24", "192.0.2.255:1", true), ("192.0.2.0/24", "192.0.3.0:1", false),
      ("192.0.2.99/24", "192.0.2.1:1", true), ("128.0.0.0/1", "255.0.0.1:1", true),
      ("128.0.0.0/1", "127.0.0.1:1", false), ("0.0.0.0/0", "203.0.113.9:1", true),
      ("192.0.2.7/32", "192.0.2.6:1", false), ("0.0.0.0/0", "[::]:1", false),
      ("::/0", "0.0.0.0:1", false), ("::/0", "[2001:db8::1]:1", true),
      ("2001:db8::/32", "[2001:db8:ffff::1]:1", true),
      ("2001:db8::/32", "[2001:db9::1]:1", false), ("2001:db8::1", "[2001:db8::1]:1", true),
      ("2001:db8::/65", "[2001:db8::7fff:0:0:0]:1", true),
      ("2001:db8::/65", "[2001:db8::8000:0:0:0]:1", false),
      ("2001:db8::/64", "[2001:db8:0:1::]:1", false),
    ])
  func contained(range: String, address: String, expected: Bool) throws {
    let range = try #require(AddressRange(range))
    #expect(range.contains(try SocketAddress(address)) == expected)
  }

  @Test(
    "A range is an address, and at most as many bits as it has",
    arguments: [
      "", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "::/129", "host",
      "10.0.0.7:80", "*", "10.0.0/8",
    ])
  func malformed(text: String) { #expect(AddressRange(text) == nil) }
}
