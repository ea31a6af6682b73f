import ApusWire
import Testing

@testable import ApusClient

@Suite("Connecting through a proxy")
struct ProxyTunnelTests {
  private func tunnel(user: String? = nil, password: String? = nil) -> ProxyTunnel {
    ProxyTunnel(
      to: Endpoint(host: "api.push.example", port: 2197),
      through: .init(Endpoint(host: "proxy", port: 3128), user: user, password: password))
  }

  /// The verdict on the proxy's answer, both at once and byte by byte.
  private func verdict(_ answer: String) -> ProxyTunnel.Verdict? {
    var whole = tunnel()
    let bytes = Array(answer.utf8)
    let atOnce = whole.receive(bytes.span)
    var parts = tunnel()
    var last = ProxyTunnel.Verdict.needsInput
    for byte in bytes where last == .needsInput { last = parts.receive([byte].span) }
    return last == atOnce ? last : nil
  }

  @Test("The request contains the service and the credentials")
  func request() {
    #expect(
      String(decoding: tunnel().request, as: UTF8.self)
        == "CONNECT api.push.example:2197 HTTP/1.1\r\nHost: api.push.example:2197\r\n\r\n")
    // RFC 7617, section 2: the example of the specification.
    #expect(
      String(
        decoding: tunnel(user: "Aladdin", password: "open sesame").request, as: UTF8.self)
        == "CONNECT api.push.example:2197 HTTP/1.1\r\nHost: api.push.example:2197\r\n"
        + "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n")
  }

  @Test(
    "Any 2xx status opens the tunnel, with any header fields",
    arguments: [
      "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200 OK\r\nVia: x\r\n\r\n",
      "HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ])
  func open(answer: String) { #expect(verdict(answer) == .open) }

  @Test(
    "An incomplete answer needs more input",
    arguments: ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nVia: x\r\n\r"])
  func half(answer: String) { #expect(verdict(answer) == .needsInput) }

  @Test(
    "Any other answer is refused with a reason",
    arguments: [
      ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "credentials"),
      ("HTTP/1.1 403 Forbidden\r\n\r\n", "403"), ("HTTP/2 200\r\n\r\n", "does not speak"),
      ("SSH-2.0-x\r\n\r\n", "does not speak"), ("HTTP/1.1 2000 OK\r\n\r\n", "does not speak"),
      ("HTTP/1.1 +20 OK\r\n\r\n", "does not speak"),
    ])
  func refused(answer: String, word: String) {
    guard case .refused(let text) = verdict(answer) else {
      Issue.record("\(answer) is not refused")
      return
    }
    #expect(text.contains(word))
  }

  @Test("An endless answer and data after the answer are refused")
  func tooMuch() {
    var tunnel = tunnel()
    let endless = Array("HTTP/1.1 200 OK\r\n".utf8) + [UInt8](repeating: 0x61, count: 20_000)
    guard case .refused = tunnel.receive(endless.span) else {
      Issue.record("an endless answer was not refused")
      return
    }
    var other = self.tunnel()
    let more = Array("HTTP/1.1 200 OK\r\n\r\nx".utf8)
    guard case .refused = other.receive(more.span) else {
      Issue.record("bytes after the answer were treated as the service's")
      return
    }
  }
}
