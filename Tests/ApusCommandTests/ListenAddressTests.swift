import ApusModel
import Testing

@testable import ApusCommand

/// The addresses of a value; nil if it is not valid for a listener with these modifiers.
private func read(
  _ text: String, _ allowed: Set<ListenModifier> = Set(ListenModifier.allCases)
) -> [ListenAddress]? {
  try? ValueSyntax<ListenAddresses>.listen(port: 2195, allowed: allowed).read(text).list
}

private func address(_ host: String, _ port: UInt16) -> ListenAddress.Endpoint {
  .address(HostPort(host: host, port: port))
}

@Suite("Listener addresses")
struct ListenAddressTests {
  @Test(
    "Listen addresses are ports, addresses separated by commas, or off",
    arguments: [
      ("off", []), ("0", [.everywhere(port: 0)]), ("*:80", [.everywhere(port: 80)]),
      ("127.0.0.1:1,[::1]:2", [address("127.0.0.1", 1), address("::1", 2)]),
      ("2197,127.0.0.1:1", [.everywhere(port: 2197), address("127.0.0.1", 1)]),
      ("localhost:1", nil), ("127.0.0.1:1,", nil), ("", nil), ("65536", nil), ("1.2.3:4", nil),
      ("127.0.0.1:1 127.0.0.1:2", nil), ("off,1", nil), ("*:", nil), ("+1", nil),
    ] as [(String, [ListenAddress.Endpoint]?)])
  func endpoints(text: String, expected: [ListenAddress.Endpoint]?) {
    #expect(read(text, [])?.map(\.endpoint) == expected)
    #expect(read(text)?.map(\.endpoint) == expected, "where modifiers are allowed")
  }

  @Test("A modifier applies only to its address")
  func modifiers() {
    #expect(
      read("2195,10.0.0.7:3195+legacy-tls+confirm,[::1]:3196+strict,*:1+confirm+lenient") == [
        ListenAddress(.everywhere(port: 2195)),
        ListenAddress(address("10.0.0.7", 3195), [.legacyTLS, .confirm]),
        ListenAddress(address("::1", 3196), [.strict]),
        ListenAddress(.everywhere(port: 1), [.lenient, .confirm]),
      ])
  }

  @Test("Addresses with the same modifiers, in any order, share a listener")
  func groups() throws {
    let syntax = ValueSyntax<ListenAddresses>.listen(
      port: 2195, allowed: Set(ListenModifier.allCases))
    let groups = try syntax.read("1+confirm+strict,2,3+strict+confirm,4+confirm,5").groups
    #expect(groups.map(\.modifiers) == [[.confirm, .strict], [], [.confirm]])
    #expect(
      groups.map(\.endpoints) == [
        [.everywhere(port: 1), .everywhere(port: 3)], [.everywhere(port: 2), .everywhere(port: 5)],
        [.everywhere(port: 4)],
      ])
    #expect(ListenAddresses.off.groups.isEmpty)
  }

  @Test(
    "An error names a wrong modifier and suggests the right one",
    arguments: [
      (
        "gateway", "1,2+confrim",
        "has +confrim, which is not one of +legacy-tls, +confirm, +strict, +lenient, +proxy; "
          + "did you mean +confirm?"
      ),
      (
        "gateway", "1+fast",
        "has +fast, which is not one of +legacy-tls, +confirm, +strict, +lenient, +proxy"
      ),
      (
        "gateway", "1+Strict",
        "has +Strict, which is not one of +legacy-tls, +confirm, +strict, +lenient, +proxy; "
          + "did you mean +strict?"
      ),
      (
        "gateway", "1+strict+confirm+lenient",
        "has +strict and +lenient at one address; keep one of them"
      ),
      (
        "gateway-development", "1+lenient+strict",
        "has +lenient and +strict at one address; keep one of them"
      ),
      ("gateway", "1+confirm+confirm", "has +confirm twice; write it once"),
      ("gateway", "1+", "has a + without a modifier"),
      ("gateway", "1++strict", "has a + without a modifier"),
      ("gateway", "off+strict", "has a modifier after off; a listener that is off takes none"),
      (
        "gateway", "+strict",
        "is neither a port, nor addresses separated by commas such as "
          + "127.0.0.1:2195,[::1]:2195, nor off"
      ),
      (
        "feedback", "1+confirm",
        "has +confirm, which only gateway listeners accept; this one accepts +legacy-tls, +proxy"
      ),
      (
        "feedback-development", "1+legacy-tls+lenient",
        "has +lenient, which only gateway listeners accept; this one accepts +legacy-tls, +proxy"
      ),
      ("feedback", "1+legacy", "has +legacy, which is not one of +legacy-tls, +proxy"),
      (
        "feedback", "1+legcy-tls",
        "has +legcy-tls, which is not one of +legacy-tls, +proxy; did you mean +legacy-tls?"
      ),
      (
        "http2", "127.0.0.1:1+strict",
        "has +strict, which only gateway listeners accept; this one accepts +proxy"
      ),
      (
        "courier-development", "1+legacy-tls",
        "has +legacy-tls, which only gateway and feedback listeners accept; "
          + "this one accepts +proxy"
      ),
      ("courier", "1+fast", "has +fast, which is not +proxy"),
    ])
  func mistakes(listener: String, text: String, expected: String) {
    #expect(
      failure("serve --\(listener)-listen \(text)")?.description
        == "--\(listener)-listen: \"\(text)\" \(expected)")
  }

  @Test("Each listener accepts only its own modifiers")
  func allowed() throws {
    for modifier in ListenModifier.allCases {
      for (listener, takes) in [
        ("http2", modifier == .proxy), ("http2-development", modifier == .proxy),
        ("courier", modifier == .proxy), ("courier-development", modifier == .proxy),
        ("gateway", true), ("gateway-development", true),
        ("feedback", [.legacyTLS, .proxy].contains(modifier)),
        ("feedback-development", [.legacyTLS, .proxy].contains(modifier)),
      ] {
        let failure = failure("serve --\(listener)-listen 127.0.0.1:1\(modifier.text)")
        #expect((failure == nil) == takes, "\(listener) \(modifier.text)")
      }
    }
  }

  @Test(
    "Proxies are numeric addresses, each with the number of bits that count, or all of them",
    arguments: [
      ("10.0.0.7", ["10.0.0.7"]), ("10.0.0.0/8,::1", ["10.0.0.0/8", "::1"]),
      ("[2001:db8::]/32", ["2001:db8::/32"]), ("0.0.0.0/0", ["0.0.0.0/0"]),
      ("2001:db8::1/128", ["2001:db8::1/128"]), ("", nil), ("10.0.0.7,", nil), ("proxy", nil),
      ("10.0.0.0/33", nil), ("::/129", nil), ("10.0.0.0/", nil), ("10.0.0.0/+8", nil),
      ("10.0.0.7:80", nil), ("10.0.0.0/8/8", nil), ("10.0.0/8", nil),
    ] as [(String, [String]?)])
  func ranges(text: String, expected: [String]?) {
    #expect((try? ValueSyntax<[String]>.addressRanges.read(text)) == expected)
  }

  @Test(
    "A server certificate is a listener and two files",
    arguments: [
      (
        "http2=a.pem:b.pem",
        ServerCertificate(listener: "http2", chainFile: "a.pem", keyFile: "b.pem")
      ),
      (
        "admin=/x/y=z:1.pem:k",
        ServerCertificate(listener: "admin", chainFile: "/x/y=z:1.pem", keyFile: "k")
      ),
      ("http2=a.pem", nil), ("http2=:b", nil), ("http2=a:", nil), ("a.pem:b.pem", nil),
      ("=a:b", nil), ("", nil),
    ] as [(String, ServerCertificate?)])
  func certificates(text: String, expected: ServerCertificate?) {
    let syntax = ValueSyntax<ServerCertificate>.serverCertificate(["http2", "admin"])
    #expect((try? syntax.read(text)) == expected)
  }

  @Test("An error about a server certificate names the listeners that there are")
  func certificateMistakes() {
    #expect(
      failure("serve --server-certificate courrier=a:b")?.description
        == "--server-certificate: \"courrier=a:b\" names no listener; it is one of http2, "
        + "http2-development, courier, courier-development, gateway, gateway-development, feedback, "
        + "feedback-development, channels, channels-development, admin; did you mean courier?")
    #expect(failure("serve --server-certificate gateway=a:b") == nil)
  }

  @Test(
    "Two listeners cannot share a port of an address",
    arguments: [
      ("127.0.0.1:1", "127.0.0.1:1", true), ("127.0.0.1:1", "127.0.0.1:2", false),
      ("127.0.0.1:1", "127.0.0.2:1", false), ("0.0.0.0:1", "127.0.0.2:1", true),
      ("127.0.0.2:1", "0.0.0.0:1", true), ("0.0.0.0:1", "[::]:1", false),
      ("[::]:1", "[::1]:1", true), ("[::1]:1", "[::1]:1", true), ("0.0.0.0:1", "[::1]:1", false),
      ("127.0.0.1:0", "127.0.0.1:0", false),
    ])
  func collisions(one: String, other: String, expected: Bool) throws {
    let one = try #require(HostPort(one))
    let other = try #require(HostPort(other))
    #expect(one.collides(with: other) == expected)
    #expect(other.collides(with: one) == expected)
  }
}

@Suite("Console addresses")
struct ConsoleEndpointTests {
  @Test(
    "A port, a numeric address, or both; the rest has defaults",
    arguments: [
      ("8080", "127.0.0.1:8080"), ("0", "127.0.0.1:0"), ("0.0.0.0", "0.0.0.0:2191"),
      ("192.0.2.1:80", "192.0.2.1:80"), ("::1", "[::1]:2191"), ("[::]", "[::]:2191"),
      ("[2001:db8::1]:80", "[2001:db8::1]:80"), ("", nil), ("localhost", nil),
      ("localhost:80", nil), ("65536", nil), ("1.2.3", nil), ("[127.0.0.1]", nil), (":80", nil),
      ("a:b", nil), ("*:80", nil),
    ] as [(String, String?)])
  func endpoints(text: String, expected: String?) {
    let endpoint = try? ValueSyntax<ConsoleEndpoint>.consoleEndpoint("PLACE").read(text)
    #expect(endpoint?.address(host: "127.0.0.1", port: 2191).description == expected)
  }
}
