import Testing

@testable import ApusWeb

@Suite("Parsing requests")
struct RequestTests {
  @Test(
    "A path is split at its slashes before percent signs are decoded",
    arguments: [
      ("/", []),
      ("/a", ["a"]),
      ("/a/b%2Fc", ["a", "b/c"]),
      ("/v1/apps/com.example.app", ["v1", "apps", "com.example.app"]),
      ("/a/", ["a", ""]),
      ("//a", ["", "a"]),
      ("/%C3%A4", ["ä"]),
      ("/a+b", ["a+b"]),
    ])
  func segments(path: String, expected: [String]) {
    #expect(WebRequest.segments(ofPath: path) == expected)
  }

  @Test(
    "A path that is not valid text is rejected",
    arguments: ["", "a", "/%", "/%4", "/%4g", "/%00", "/%ff", "*", "http://x/"])
  func badPath(path: String) {
    #expect(WebRequest.segments(ofPath: path) == nil)
  }

  @Test(
    "Addresses have their usual notation",
    arguments: [
      (WebPeer.local(user: 1000, process: 1), "uid 1000"),
      (.address([192, 0, 2, 1], port: 40000), "192.0.2.1:40000"),
      (.address([UInt8](repeating: 0, count: 15) + [1], port: 2190), "[::1]:2190"),
      (
        .address([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2], port: 1),
        "[2001:db8::1:0:0:2]:1"
      ),
      (.address([0x20, 1] + [UInt8](repeating: 0, count: 14), port: 1), "[2001::]:1"),
      (.address((1...16).map { $0 }, port: 1), "[102:304:506:708:90a:b0c:d0e:f10]:1"),
    ])
  func peers(peer: WebPeer, text: String) {
    #expect(peer.text == text)
  }

  @Test("A response has each header field once, its own before the standard ones")
  func headers() {
    var response = WebResponse(200, text: "")
    #expect(Set(response.allHeaders.map(\.name)).count == response.allHeaders.count)
    #expect(response.allHeaders.contains(WebField("X-Content-Type-Options", "nosniff")))
    response.headers = [WebField("cache-control", "max-age=60")]
    let caching = response.allHeaders.filter { $0.name.lowercased() == "cache-control" }
    #expect(caching == [WebField("cache-control", "max-age=60")])
  }
}
