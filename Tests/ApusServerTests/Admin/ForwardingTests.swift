import ApusCore
import ApusDirectory
import ApusModel
import ApusStore
import ApusTesting
import ApusWeb
import ApusWire
import Synchronization
import Testing

@testable import ApusAdmin

/// A node that gives one answer, and keeps what it was asked.
private final class OneAnswer: DecidingNode {
  let unreadiness: String?
  private let answer: Result<[UInt8], DecidingNodeFault>
  private let asked = Mutex<[(request: [UInt8], mayBeRepeated: Bool)]>([])

  init(_ answer: Result<[UInt8], DecidingNodeFault>, unreadiness: String? = nil) {
    self.answer = answer
    self.unreadiness = unreadiness
  }

  var requests: [(request: [UInt8], mayBeRepeated: Bool)] { asked.withLock { $0 } }

  func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void
  ) {
    asked.withLock { $0.append((request, mayBeRepeated)) }
    done(answer)
  }
}

@Suite("An edge's administration passes requests on to the node that serves")
struct ForwardingTests {
  /// Behind the number of the head's bytes.
  private static func message(_ head: String, _ content: String = "") -> [UInt8] {
    [0, 0, 0, UInt8(head.utf8.count)] + Array(head.utf8) + Array(content.utf8)
  }

  private static let answer = message(
    #"{"status":201,"type":"application/json","headers":[["Location","/v1/x"]]}"#, #"{"a":1}"#)

  private func bench(_ node: any DecidingNode) throws -> AdminBench {
    let bench = try AdminBench()
    var view = bench.api.view
    view.decidingNode = node
    view.service = IdleService(share: try #require(DeviceShare(part: nil, of: 2)))
    view.cluster = ClusterNodes(own: "b", setDraining: { _, _ in }) {
      [
        ClusterNode(
          name: "a", address: "a.example", version: "1.2.3", state: .serving, isDraining: false,
          silentMilliseconds: 400, part: 0),
        ClusterNode(
          name: "b", address: "", version: "1.2.4", state: .standby, isDraining: false,
          silentMilliseconds: 9000),
      ]
    }
    return AdminBench(bench.directory, AdminAPI(view: view, gate: bench.api.gate))
  }

  @Test("A request goes on with its caller, and the answer comes back as it is")
  func through() throws {
    let node = OneAnswer(.success(Self.answer))
    let bench = try bench(node)
    let token = try bench.token("ops", .all)
    let answer = try bench.ask(
      "POST", "/v1/teams", #"{"name":"Kitchen"}"#, token: token, peer: AdminBench.remotePeer)
    #expect(answer.status == 201)
    #expect(answer.text == #"{"a":1}"#)
    #expect(answer.headers == [WebField("Location", "/v1/x")])
    let asked = try #require(node.requests.first)
    #expect(!asked.mayBeRepeated)
    let head =
      #"{"method":"POST","path":["v1","teams"],"query":[],"#
      + #""headers":[["content-type","application/json"]],"#
      + #""caller":{"name":"token ops","origin":"192.0.2.1:40000","rights":15}}"#
    #expect(asked.request == Self.message(head, #"{"name":"Kitchen"}"#))
  }

  @Test("Who may not do something is refused before anything is passed on")
  func refused() throws {
    let node = OneAnswer(.success(Self.answer))
    let bench = try bench(node)
    let reader = try bench.token("reader", .read)
    let peer = AdminBench.remotePeer
    let asked = { (token: String?) in
      try bench.ask("POST", "/v1/teams", #"{"name":"K"}"#, token: token, peer: peer).status
    }
    #expect(try asked(nil) == 401)
    #expect(try asked(reader) == 403)
    #expect(node.requests.isEmpty)
  }

  @Test("What is about the edge itself is answered there")
  func own() throws {
    let node = OneAnswer(.success(Self.answer))
    let bench = try bench(node)
    #expect(try bench.ask("GET", "/healthz").text == "ok\n")
    let nodes = try bench.ask("GET", "/v1/nodes")
    #expect(
      nodes.text == #"{"nodes":[{"node":"a","state":"serving","draining":false,"version":"1.2.3","#
        + #""address":"a.example","part":0,"silent_ms":400,"asked":false},{"node":"b","state":"away","#
        + #""draining":false,"version":"1.2.4","silent_ms":9000,"asked":true}]}"# + "\n")
    let metrics = try bench.ask("GET", "/metrics").text
    #expect(metrics.contains("\napus_node_info{node=\"b\"} 1\n"))
    #expect(metrics.contains("\napus_node_serving 0\n"))
    #expect(metrics.contains("\napus_cluster_nodes{state=\"serving\"} 1\n"))
    #expect(metrics.contains("\napus_cluster_nodes{state=\"away\"} 1\n"))
    #expect(metrics.contains("\napus_cluster_parts{state=\"serving\"} 1\n"))
    #expect(metrics.contains("\napus_cluster_parts{state=\"vacant\"} 1\n"))
    #expect(node.requests.isEmpty)
    #expect(try bench.ask("POST", "/v1/ledger/query", "{}").status == 201)
    #expect(try #require(node.requests.first).mayBeRepeated)
  }

  @Test("Nodes are drained and resumed through the node that is asked")
  func draining() throws {
    let node = OneAnswer(.success(Self.answer))
    let bench = try bench(node)
    var view = bench.api.view
    let asked = Mutex<[String]>([])
    view.cluster?.setDraining = { node, isDraining in
      asked.withLock { $0.append("\(node.text) \(isDraining)") }
      if asked.withLock({ $0.count }) == 3 { throw DirectoryProblem("nobody stands by") }
      if asked.withLock({ $0.count }) == 4 { throw StoreError.unavailable }
    }
    let draining = AdminBench(bench.directory, AdminAPI(view: view, gate: bench.api.gate))
    #expect(
      try draining.ask("POST", "/v1/nodes/a/drain", "{}").text
        == #"{"node":"a","draining":true}"# + "\n")
    #expect(try draining.ask("POST", "/v1/nodes/a/resume").status == 200)
    let refused = try draining.ask("POST", "/v1/nodes/b/drain")
    #expect(refused.status == 409 && refused.json["detail"]?.string == "nobody stands by")
    #expect(try draining.ask("POST", "/v1/nodes/b/resume").status == 503)
    #expect(try draining.ask("POST", "/v1/nodes/c/drain").status == 404)
    #expect(try draining.ask("POST", "/v1/nodes/A/drain").status == 400)
    #expect(asked.withLock { $0 } == ["a true", "a false", "b true", "b false"])
    #expect(node.requests.isEmpty)
    let lines = try bench.auditLines()
    #expect(lines.map { $0["event"]?.string } == ["node.drained", "node.resumed"])
    #expect(lines.first?["subject"]?.string == "node a")
    let reader = try bench.token("reader", .read)
    #expect(
      try draining.ask(
        "POST", "/v1/nodes/a/drain", token: reader, peer: AdminBench.remotePeer
      ).status == 403)
    let alone = try AdminBench().ask("POST", "/v1/nodes/a/drain")
    #expect(alone.status == 404 && alone.text.contains("not a node of a cluster"))
  }

  @Test("Without an answer the problem says whether something may have been done")
  func faults() throws {
    let unreached = try bench(OneAnswer(.failure(.notReached("no node serves"))))
    let first = try unreached.ask("GET", "/v1/status")
    #expect(first.status == 503)
    #expect(first.json["detail"]?.string == "no node serves; `apus cluster nodes` shows all nodes")
    let lost = try bench(OneAnswer(.failure(.lost("reset"))))
    let read = try lost.ask("GET", "/v1/status").json["detail"]?.string
    #expect(read == "the node that serves was lost (reset); try again")
    let change = try lost.ask("POST", "/v1/teams", #"{"name":"K"}"#)
    #expect(change.status == 503)
    #expect(change.json["detail"]?.string?.contains("may have made the change") == true)
    let nonsense = try bench(OneAnswer(.success([0, 0, 0, 9])))
    #expect(try nonsense.ask("GET", "/v1/status").status == 500)
  }

  @Test("It is not ready while no node serves, or while an operator drains it")
  func readiness() throws {
    let lacking = try bench(OneAnswer(.success([]), unreadiness: "no node serves"))
    let answer = try lacking.ask("GET", "/readyz")
    #expect(answer.status == 503 && answer.text == "no node serves\n")
    var view = lacking.api.view
    view.cluster = ClusterNodes(own: "b", setDraining: { _, _ in }) {
      [
        ClusterNode(
          name: "b", address: "", version: "1", state: .standby, isDraining: true,
          silentMilliseconds: 1)
      ]
    }
    let drained = AdminBench(lacking.directory, AdminAPI(view: view, gate: lacking.api.gate))
    #expect(try drained.ask("GET", "/readyz").text == "the node is being drained\n")
  }

  @Test(
    "Bytes of another node that are no request are refused",
    arguments: [
      [], [0, 0, 0], [0, 0, 0, 5, 0x7b, 0x7d], message("{}"), message("[]"), message("nonsense"),
      message(
        #"{"method":"GET","path":[1],"query":[],"headers":[],"caller":{"name":"n","origin":"o","rights":1}}"#
      ),
      message(
        #"{"method":"GET","path":[],"query":[["a"]],"headers":[],"caller":{"name":"n","origin":"o","rights":1}}"#
      ),
      message(
        #"{"method":"GET","path":[],"query":[],"headers":[],"caller":{"name":"n","origin":"o","rights":-1}}"#
      ),
    ] as [[UInt8]])
  func nonsense(_ bytes: [UInt8]) { #expect(ForwardedRequest(bytes, from: "b") == nil) }
}
