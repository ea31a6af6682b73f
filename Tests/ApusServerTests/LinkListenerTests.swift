import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

/// Connections from peers that are no node of the cluster, and bytes that make no sense.
@Suite("The listener for other nodes")
struct LinkListenerTests {
  private let service: TestService
  private let nodes: NodesByHand

  init() throws {
    let admin = AdminConfiguration(hasSocket: false, version: "1")
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.admin) = (true, admin) })
    nodes = try NodesByHand(service)
  }

  private func end(_ identity: TLSIdentity?, applicationProtocol: String = "apus-link/3") -> String
  {
    do {
      let client = try nodes.connect(identity, applicationProtocol: applicationProtocol)
      return "\(try client.receiveAll().end)"
    } catch { return "\(error)" }
  }

  @Test("Only a node's certificate is good, and no other of the service")
  func certificates() throws {
    #expect(end(nil).contains("116"))
    let provider = try service.directory.providerIdentity()
    #expect(end(provider).contains("48"))
    let node = try nodes.identity("a")
    #expect(end(node, applicationProtocol: "h2").contains("ALPN"))
  }

  @Test("A node that does not belong to the cluster is turned away")
  func stranger() throws {
    let bystanders = try Bystanders(service)
    let stranger = try nodes.identity("b")
    let client = try nodes.connect(stranger)
    try? client.send([1, 0, 1])
    #expect(try client.receiveAll().bytes.isEmpty)
    try bystanders.expectUndisturbed()
  }

  @Test(
    "What makes no sense ends its connection, and no other",
    arguments: [
      // No purpose 0; no part 1; not two parts; a request of an administration that is too long; no worker 512; a
      // notification that is too long, one that is cut, and one with an unknown topic suffix.
      [0, 0, 1], [1, 1, 1], [1, 0, 2], [3, 0, 1, 0xff, 0xff, 0xff, 0xff], [2, 0, 1, 2, 0],
      [1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0], [1, 0, 1, 0, 0, 0, 2, 0, 0],
      [1, 0, 1, 0, 0, 0, 105] + [UInt8](repeating: 0, count: 48) + [9]
        + [UInt8](repeating: 0, count: 56),
    ] as [[UInt8]])
  func nonsense(_ bytes: [UInt8]) throws {
    let bystanders = try Bystanders(service)
    let node = try nodes.identity("a")
    let client = try nodes.connect(node)
    try client.send(bytes)
    #expect(try client.receiveAll().bytes.isEmpty)
    try bystanders.expectUndisturbed()
  }

  @Test("A request of another node's administration by hand gets its answer")
  func administration() throws {
    let node = try nodes.identity("a")
    let head =
      #"{"method":"POST","path":["v1","teams"],"query":[],"headers":[],"#
      + #""caller":{"name":"token ops","origin":"192.0.2.1:40000","rights":15}}"#
    let request =
      [0, 0, 0, UInt8(head.utf8.count)] + Array(head.utf8) + Array(#"{"name":"Kitchen"}"#.utf8)
    let client = try nodes.connect(node)
    // In two parts: what came first moves to another thread with the connection.
    try client.send([3, 0, 1, 0, 0, 0, UInt8(request.count)] + request[..<50])
    try client.send(Array(request[50...]))
    let answer = try client.receiveAll().bytes
    let text = String(decoding: answer, as: UTF8.self)
    #expect(text.contains(#"{"status":201,"type":"application/json","headers":[]}"#))
    let count = answer[..<4].reduce(0) { $0 << 8 | Int($1) }
    #expect(count == answer.count - 4)
    let lines = try String(
      contentsOfFile: DataDirectory(path: service.directory.data.path).auditFile, encoding: .utf8)
    #expect(lines.contains(#""actor":"token ops""#))
    #expect(lines.contains(#""from":"192.0.2.1:40000, node a""#))
    let other = try nodes.connect(node)
    try other.send([3, 0, 1, 0, 0, 0, 2, 0, 0])
    let refusal = String(decoding: try other.receiveAll().bytes, as: UTF8.self)
    #expect(refusal.contains(#""status":400"#))
  }

  @Test("A notification by hand gets its verdict by hand")
  func notification() throws {
    let node = try nodes.identity("a")
    let client = try nodes.connect(node)
    // To a device that never registered the app.
    let frame: [UInt8] =
      [1, 0, 1] + [0, 0, 0, 105] + [0, 0, 0, 77]
      + [UInt8](repeating: 7, count: 32) + [0, 0, 0, 0, 0, 0, 0xab, 0xcd] + [0, 0, 0, 1] + [0, 0]
      + [0, 0] + [UInt8](repeating: 0, count: 32)
      + [UInt8](repeating: 0, count: 16) + [10, 0, 0] + [0] + [0x7b, 0x7d]
    try client.send(frame)
    let reason = Array("DeviceTokenNotForTopic".utf8)
    #expect(
      try client.take(13 + reason.count) == [0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 22] + reason)
    try client.finish()
  }
}
