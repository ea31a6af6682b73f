import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import Testing

/// A node that answers the clients' links of an edge with bytes that it should not send.
@Suite("An edge and a node that makes no sense")
struct WrongNodeTests {
  private let service: TestService
  private let nodes: NodesByHand

  init() throws {
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.workers) = (true, 1) })
    nodes = try NodesByHand(service)
  }

  @Test("Its links end, in the middle of what came, and clients go on with the next node")
  func wrong() throws {
    let node = try #require(TestService.node)
    let address = try #require(service.linkAddress)
    // A frame of no kind, and more than is decrypted at a time.
    let nonsense = [0, 0, 0, 1, 99, 0, 0, 0] + [UInt8](repeating: 7, count: 60_000)
    let wrong = try NodeByHand(nodes.identity("a")) { _ in nonsense }
    service.service.setLinkTarget((node, wrong.address))
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization())
    #expect(try provider.exchange(headers, body: TestService.payload).status == 400)
    let waiting = try (0..<4).map { _ in
      let client = try service.courier(service.directory.device())
      try client.send(ConnectedDevice.connectMessage())
      return client
    }
    try waitUntil("it to have answered, and the next link") { wrong.linkCount > 1 }
    // Other connections of the worker are read before it opens a link again.
    let stream = try provider.request(headers, body: TestService.payload)
    service.service.setLinkTarget((node, address))
    #expect(try provider.response(to: stream).status == 400)
    for client in waiting { #expect(try client.expect(0x08)[1] == [0]) }
  }
}
