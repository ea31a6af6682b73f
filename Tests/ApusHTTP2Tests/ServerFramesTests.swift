import ApusModel
import Testing

@testable import ApusHTTP2

@Suite("Frames of the server")
struct ServerFramesTests {
  /// `apns-id: EC1BF194-B3B2-424A-89A9-5A918A6E6B5D` as a literal never indexed (0x10), with a new name of 7 bytes and
  /// a value of 36, without Huffman code (RFC 7541, section 6.2.3).
  private let identity: [UInt8] =
    [0x10, 0x07] + Array("apns-id".utf8) + [0x24]
    + Array("EC1BF194-B3B2-424A-89A9-5A918A6E6B5D".utf8)

  @Test(
    "The first SETTINGS frame has the values of APNs, byte for byte",
    arguments: [
      (HTTP2ServerSession.Configuration.untrusted, [0x00, 0x01] as [UInt8]),
      (.trusted, [0x03, 0xe8]),
    ])
  func firstSettings(configuration: HTTP2ServerSession.Configuration, limit: [UInt8]) {
    let bytes = Server(configuration).outputBytes()
    let expected: [UInt8] =
      [
        0x00, 0x00, 0x1e, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x01, 0x00, 0x00, 0x10, 0x00,
        0x00, 0x03, 0x00, 0x00,
      ] + limit + [
        0x00, 0x04, 0x00, 0x00, 0xff, 0xff,
        0x00, 0x05, 0x00, 0x00, 0x40, 0x00,
        0x00, 0x06, 0x00, 0x00, 0x1f, 0x40,
      ]
    #expect(Array(bytes.prefix(39)) == expected)
    // WINDOW_UPDATE of the connection: 4,096,000 - 65,535 = 0x3d8001.
    #expect(
      Array(bytes.dropFirst(39))
        == [0x00, 0x00, 0x04, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x3d, 0x80, 0x01])
  }

  @Test("The client's SETTINGS are acknowledged at once")
  func acknowledgement() {
    let server = Server()
    _ = server.output()
    server.receive(preface + frame(Kind.settings))
    #expect(server.outputBytes() == [0, 0, 0, 4, 1, 0, 0, 0, 0])
    #expect(!server.session.wantsWrite)
  }

  @Test("Success is one HEADERS frame that ends the stream, with its id outside the table")
  func success() {
    let server = Server.ready()
    server.receive(request(1))
    #expect(server.answerAll() == [1])
    let output = server.output()
    #expect(
      output == [
        Frame(
          type: Kind.headers, flags: Flag.endHeaders | Flag.endStream, stream: 1,
          payload: [0x88] + identity)
      ])
    #expect(server.session.openStreamCount == 0)
    // The same response again has the same bytes: nothing entered the dynamic table.
    server.receive(request(3))
    server.answerAll()
    #expect(server.output().first?.payload == output[0].payload)
  }

  @Test("Failure is HEADERS and one DATA frame that ends the stream")
  func failure() {
    let server = Server.ready()
    server.receive(request(1))
    _ = server.session.nextRequest()
    #expect(server.refuse(1))
    let output = server.output()
    #expect(output.count == 2)
    // 0x8c is `:status: 400`; a literal without indexing (0x0f), named by index 31 = 15 + 16, has 16 bytes.
    let contentType: [UInt8] = [0x0f, 0x10, 0x10] + Array("application/json".utf8)
    #expect(
      output[0]
        == Frame(
          type: Kind.headers, flags: Flag.endHeaders, stream: 1,
          payload: [0x8c] + contentType + identity))
    #expect(
      output[1]
        == Frame(
          type: Kind.data, flags: Flag.endStream, stream: 1,
          payload: Array("{\"reason\":\"BadPath\"}".utf8)))
    #expect(server.session.openStreamCount == 0)
  }

  @Test("A response to HEAD has no body")
  func head() {
    let server = Server.ready()
    let block: [UInt8] = [0x02, 4] + Array("HEAD".utf8) + [0x87, 0x84]
    server.receive(headers(1, block, endStream: true))
    #expect(server.session.nextRequest()?.streamID == 1)
    #expect(server.refuse(1, status: 405))
    #expect(server.output().map(\.type) == [Kind.headers])
  }

  @Test("BadCertificateEnvironment is a GOAWAY frame of length 46")
  func badCertificateEnvironment() {
    let server = Server()
    server.session.goAway(reason: .badCertificateEnvironment)
    let bytes = server.outputBytes()
    let expected: [UInt8] =
      [0, 0, 46, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
      + Array("{\"reason\":\"BadCertificateEnvironment\"}".utf8)
    #expect(Array(bytes.suffix(55)) == expected)
    #expect(frames(bytes)?.map(\.type) == [Kind.settings, Kind.windowUpdate, Kind.goAway])
    #expect(server.session.isFinished)
  }

  @Test("A PING is answered with its bytes")
  func ping() {
    let server = Server.ready()
    server.receive(frame(Kind.ping, [1, 2, 3, 4, 5, 6, 7, 8]))
    #expect(
      server.outputBytes() == [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
  }

  @Test(
    "Output comes in pieces of the requested size, and no byte is lost",
    arguments: [64, 100, 1024])
  func outputInRuns(limit: Int) {
    let whole = Server.ready()
    let parts = Server.ready()
    for server in [whole, parts] {
      for stream in stride(from: UInt32(1), to: 101, by: 2) { server.receive(request(stream)) }
      while let request = server.session.nextRequest() {
        #expect(server.refuse(request.streamID))
        server.session.release(request)
      }
    }
    let expected = whole.outputBytes()
    var bytes: [UInt8] = []
    while parts.session.wantsWrite {
      let run = parts.outputBytes(limit: limit)
      #expect(run.count == limit || !parts.session.wantsWrite)
      bytes += run
    }
    #expect(bytes == expected)
  }
}

private func frame(_ type: UInt8, _ payload: [UInt8]) -> [UInt8] {
  frame(type, 0, stream: 0, payload)
}
