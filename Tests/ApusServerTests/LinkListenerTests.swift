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
  private let store = MemoryStore()
  private let service: TestService
  private let address: SocketAddress
  private let data: DataDirectory

  init() throws {
    let admin = AdminConfiguration(hasSocket: false, version: "1")
    let store = store
    service = try TestService(
      nil, .init { ($0.isBehindEdge, $0.admin, $0.store) = (true, admin, store) })
    address = try #require(service.linkAddress)
    data = DataDirectory(path: service.directory.data.path)
  }

  private func node(_ name: String) throws -> (LinkIdentity, TLSIdentity) {
    let identity = try data.linkIdentity(
      of: #require(NodeName(name)), nowSeconds: TestDirectory.nowSeconds)
    return (
      identity,
      TLSIdentity(certificateChainPEM: identity.certificatePEM, privateKeyPEM: identity.keyPEM)
    )
  }

  private func connect(
    _ identity: TLSIdentity?, applicationProtocol: String = "apus-link/1"
  ) throws -> RawTLSClient {
    let (trusted, _) = try node("a")
    let context = try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: trusted.authorityPEM), identity: identity,
        applicationProtocols: [applicationProtocol], serverName: "a.nodes.apus.internal"))
    return try RawTLSClient(RawTCPClient(address), context)
  }

  private func end(_ identity: TLSIdentity?, applicationProtocol: String = "apus-link/1") -> String
  {
    do {
      let client = try connect(identity, applicationProtocol: applicationProtocol)
      return "\(try client.receiveAll().end)"
    } catch { return "\(error)" }
  }

  @Test("Only a node's certificate is good, and no other of the service")
  func certificates() throws {
    #expect(end(nil).contains("116"))
    let provider = try service.directory.providerIdentity()
    #expect(end(provider).contains("48"))
    let (_, node) = try node("a")
    #expect(end(node, applicationProtocol: "h2").contains("ALPN"))
  }

  @Test("A node that does not belong to the cluster is turned away")
  func stranger() throws {
    let bystanders = try Bystanders(service)
    let (_, stranger) = try node("b")
    let client = try connect(stranger)
    try? client.send([1])
    #expect(try client.receiveAll().bytes.isEmpty)
    try bystanders.expectUndisturbed()
  }

  @Test(
    "What makes no sense ends its connection, and no other",
    arguments: [
      // No purpose 0; a description that is malformed; a listener that is not open; a notification that is too long,
      // one that is cut, and one with an unknown topic suffix.
      // A request of an administration that is too long.
      [3, 0xff, 0xff, 0xff, 0xff], [0], [2, 0, 0], [2, 0, 11, 9, 0, 0, 4, 127, 0, 0, 1, 0, 1, 0],
      [1, 0xff, 0xff, 0xff, 0xff, 0], [1, 0, 0, 0, 2, 0, 0],
      [1, 0, 0, 0, 105] + [UInt8](repeating: 0, count: 48) + [9]
        + [UInt8](repeating: 0, count: 56),
    ] as [[UInt8]])
  func nonsense(_ bytes: [UInt8]) throws {
    let bystanders = try Bystanders(service)
    let (_, node) = try node("a")
    let client = try connect(node)
    try client.send(bytes)
    #expect(try client.receiveAll().bytes.isEmpty)
    try bystanders.expectUndisturbed()
  }

  @Test("A request of another node's administration by hand gets its answer")
  func administration() throws {
    let (_, node) = try node("a")
    let head =
      #"{"method":"POST","path":["v1","teams"],"query":[],"headers":[],"#
      + #""caller":{"name":"token ops","origin":"192.0.2.1:40000","rights":15}}"#
    let request =
      [0, 0, 0, UInt8(head.utf8.count)] + Array(head.utf8) + Array(#"{"name":"Kitchen"}"#.utf8)
    let client = try connect(node)
    // In two parts: what came first moves to another thread with the connection.
    try client.send([3, 0, 0, 0, UInt8(request.count)] + request[..<50])
    try client.send(Array(request[50...]))
    let answer = try client.receiveAll().bytes
    let text = String(decoding: answer, as: UTF8.self)
    #expect(text.contains(#"{"status":201,"type":"application/json","headers":[]}"#))
    let count = answer[..<4].reduce(0) { $0 << 8 | Int($1) }
    #expect(count == answer.count - 4)
    let lines = try String(contentsOfFile: data.auditFile, encoding: .utf8)
    #expect(lines.contains(#""actor":"token ops""#))
    #expect(lines.contains(#""from":"192.0.2.1:40000, node a""#))
    let other = try connect(node)
    try other.send([3, 0, 0, 0, 2, 0, 0])
    let refusal = String(decoding: try other.receiveAll().bytes, as: UTF8.self)
    #expect(refusal.contains(#""status":400"#))
  }

  @Test("A notification by hand gets its verdict by hand")
  func notification() throws {
    let (_, node) = try node("a")
    let client = try connect(node)
    // To a device that never registered the app.
    let frame: [UInt8] =
      [1] + [0, 0, 0, 105] + [0, 0, 0, 77]
      + [UInt8](repeating: 7, count: 32) + [0, 0, 0, 0, 0, 0, 0xab, 0xcd] + [0, 0, 0, 1] + [0, 0]
      + [0, 0] + [UInt8](repeating: 0, count: 32)
      + [UInt8](repeating: 0, count: 16) + [10, 0, 0] + [0] + [0x7b, 0x7d]
    try client.send(frame)
    let reason = Array("DeviceTokenNotForTopic".utf8)
    #expect(
      try client.take(13 + reason.count) == [0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 22] + reason)
    try client.finish()
  }

  /// How the node that has the client's connection ends that of the link.
  enum LinkEnd: CaseIterable {
    /// With close_notify: the client has everything.
    case confirmed
    /// Without it, as when the node is killed.
    case silent
    /// The same before the list has been sent to its end.
    case early
    case reset
  }

  @Test("A list of feedback is read only if the client's node says so", arguments: LinkEnd.allCases)
  func feedback(_ end: LinkEnd) throws {
    let row = FeedbackBench.rows(1)[0]
    var group = store.makeGroup()
    group.putFeedback(row, in: FeedbackBench.list, replacing: nil)
    store.commit(group) { _ in }
    try waitUntil("the row is stored") {
      try store.feedbackTime(of: row.token, in: FeedbackBench.list) != nil
    }
    let (_, node) = try node("a")
    let client = try connect(node)
    let chain = try service.directory.providerIdentity().certificateChainPEM
    let certificate = try Certificate(pem: String(decoding: chain, as: UTF8.self)).der
    // Listener 3, production, the first one; 192.0.2.9:1000; no application protocol.
    let peer: [UInt8] = [3, 0, 0, 4, 192, 0, 2, 9, 3, 0xe8, 0] + certificate
    try client.send([2, UInt8(peer.count >> 8), UInt8(peer.count & 0xff)] + peer)
    if end != .early {
      #expect(try RawFeedbackTuple.list(client.receiveAll().bytes) == [FeedbackBench.tuple(row)])
    }
    switch end {
    case .confirmed: try client.finish()
    case .silent, .early: client.shutdownWrite()
    case .reset: client.reset()
    }
    let count = end == .confirmed ? 0 : 1
    try waitUntil("the connection has ended") { service.service.connectionCount() == 0 }
    var rows: [FeedbackRow] = []
    try store.feedbackRows(of: FeedbackBench.list, after: nil, limit: .max, into: &rows)
    #expect(rows.count == count)
  }
}
