import ApusCore
import ApusLoop
import ApusModel
import ApusStore
import ApusTesting
import Glibc
import Testing

@testable import ApusDirectory
@testable import ApusServer

/// Connections whose time ends within the same second.
@Suite("Many connections that time out together")
struct DueTurnTests {
  private static let count = 50

  /// A worker without connections, on a loop that was not started.
  private func worker(_ directory: TestDirectory) throws -> Worker {
    var configuration = ServerConfiguration(dataDirectory: directory.data.path, listeners: [])
    configuration.isEphemeral = true
    let audit = AuditLog(path: nil)
    let store = MemoryStore()
    let order = try AcceptanceOrder(store: store) { _ in }
    let shared = SharedState(
      configuration: configuration, store: store, order: order,
      channels: try ChannelRegister(store, order: order, log: configuration.log, nowSeconds: 0),
      resends: try ResendRegister(store),
      audit: audit,
      expiries: ExpiryWatch(log: configuration.log))
    let trust = try TrustLoader(
      directory.data, allowsES512: false, audit, log: configuration.log
    ).load()
    let worker = Worker(index: 0, of: 1, shared: shared, trust: trust)
    worker.connect(to: [worker])
    try worker.devices.restore(LedgerOpening(store, workers: 1, journals: LedgerJournals()))
    return worker
  }

  @Test("They are closed over several turns of the loop, so that other connections do not wait")
  func turns() throws {
    let directory = try TestDirectory()
    let worker = try worker(directory)
    // Nothing is sent, so any context will do.
    let listener = ServiceListener(
      kind: .provider, environment: .production, context: try Shared.service.providerContext(),
      authorities: worker.context.trust.authorities(of: .provider), addresses: [], rules: .standard)
    var peers: [Int32] = []
    defer { for peer in peers { close(peer) } }
    for _ in 0..<Self.count {
      var pair: [Int32] = [-1, -1]
      try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
      peers.append(pair[1])
      worker.connections.accept(pair[0], .loopbackIPv4(port: 1), listener)
    }
    var left = worker.connections.count
    try #require(left == Self.count)
    var most = 0
    let endTurn = worker.loop.onTurnEnd
    worker.loop.onTurnEnd = {
      endTurn?()
      most = max(most, left - worker.connections.count)
      left = worker.connections.count
      if left == 0 { worker.loop.stop() }
    }
    worker.loop.run()
    #expect(left == 0)
    #expect(most == Limits.duePerTurn)
  }
}
