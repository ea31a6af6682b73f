import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Requests that are not POST, and long answers")
struct ClientMethodTests {
  private func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

  /// The header blocks that the client sends for these methods; nil is the default.
  private func blocks(_ methods: [StaticString?]) -> [[UInt8]] {
    let client = Client.ready(shares: false)
    client.session.share(authority: Array("a".utf8).span, authorization: [])
    for method in methods {
      var fields = HTTP2FieldList()
      if let method { fields.add(.method, method) }
      fields.add(.path, "/p")
      #expect(client.session.submit(fields, body: [], tag: 0) != nil)
    }
    let sent = client.output()
    #expect(sent.allSatisfy { $0.flags == Flag.endHeaders | Flag.endStream })
    return sent.map(\.payload)
  }

  @Test(
    "The method is in the static table, or a literal that the next request takes from the table")
  func methods() {
    // RFC 7541, appendix A: 2 is `:method: GET`, 3 `:method: POST`, 7 `:scheme: https`. 0x41 is a new entry for
    // `:authority`, 0x42 one for `:method`, 0x14 the path. 0xbe is the newest entry, 0xbf the one before.
    let path = [0x14] + text("/p")
    #expect(
      blocks([nil, "GET", "DELETE", "DELETE", nil]) == [
        [0x83, 0x87, 0x41] + text("a") + path,
        [0x87, 0xbe, 0x82] + path,
        [0x87, 0xbe, 0x42] + text("DELETE") + path,
        [0x87, 0xbf, 0xbe] + path,
        [0x83, 0x87, 0xbf] + path,
      ])
  }

  @Test("A list of fields without its method is a POST again")
  func reuse() {
    var fields = HTTP2FieldList()
    fields.add(.method, "GET")
    #expect(fields.hasMethod)
    fields.removeAll()
    fields.add(.path, "/p")
    #expect(!fields.hasMethod)
  }

  private func asked(answerLimit: Int) -> Client {
    let client = Client.ready()
    var fields = HTTP2FieldList()
    fields.add(.path, "/p")
    #expect(client.session.submit(fields, body: [], tag: 0, answerLimit: answerLimit) == 1)
    _ = client.output()
    client.receive(headers(1, [0x88]))
    return client
  }

  @Test("The window of a stream is restored while its answer may still grow")
  func longAnswer() throws {
    let client = asked(answerLimit: 200_000)
    let piece = [UInt8](repeating: 0x61, count: 16_384)
    for round in 1...6 {
      client.receive(data(1, piece, endStream: false) + data(1, piece, endStream: false))
      let update = client.output().filter { $0.stream == 1 }
      #expect(update.map(\.type) == [Kind.windowUpdate], "round \(round)")
      #expect(update.map(\.payload) == [big(32_768)])
    }
    client.receive(data(1, [0x62]))
    let response = try #require(client.session.nextResponse())
    #expect(response.failure == nil && response.status == 200)
    #expect(response.body.count == 6 * 32_768 + 1)
    #expect(response.body.span[6 * 32_768] == 0x62)
  }

  @Test("A longer answer than asked for is cut off")
  func tooLong() throws {
    let client = asked(answerLimit: 40_000)
    let piece = [UInt8](repeating: 0x61, count: 16_384)
    for _ in 1...4 { client.receive(data(1, piece, endStream: false)) }
    let sent = client.output()
    #expect(sent.filter { $0.type == Kind.windowUpdate && $0.stream == 1 }.count == 1)
    #expect(resetCode(sent, 1) == 8)
    let response = try #require(client.session.nextResponse())
    #expect(response.body.count == 40_000)
  }
}
