import ApusCore
import ApusModel
import ApusStore
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@testable import ApusDirectory
@testable import ApusServer

/// A reader of the feedback service that is connected when its authorization ends. The clock and the network are the
/// test's.
@Suite("A feedback connection ends when its authorization ends")
struct FeedbackLifetimeTests {
  private let store: MemoryStore
  private let bench: SteppedBench
  private var directory: TestDirectory { bench.directory }
  private let rows = FeedbackBench.rows(20_000)

  init() throws {
    let store = MemoryStore()
    var group = store.makeGroup()
    for row in rows { group.putFeedback(row, in: FeedbackBench.list, replacing: nil) }
    store.commit(group) { _ in }
    try waitUntil("the rows to be stored") { store.pendingCommitCount == 0 }
    self.store = store
    bench = try SteppedBench(.feedback, store: store)
  }

  /// A reader for which a part of the list waits to be sent, and that has taken nothing yet.
  private func reader(_ identity: TLSIdentity) throws -> SteppedClient {
    try SteppedClient(bench, identity: identity, readsNothing: true)
  }

  /// Lets the list come as far as it comes.
  private func readOn(_ reader: SteppedClient) throws {
    for _ in 0..<200 where !bench.isClosed(reader.descriptor) && !reader.isEnded {
      bench.setRoom(.max, reader.descriptor)
      // The pause in front of the end.
      bench.advance(
        toMilliseconds: bench.network.nowMilliseconds + Limits.pauseBeforeCloseMilliseconds + 1)
      try reader.receive()
    }
  }

  private func stored() throws -> Int {
    var stored: [FeedbackRow] = []
    try store.feedbackRows(of: FeedbackBench.list, after: nil, limit: .max, into: &stored)
    return stored.count
  }

  /// Expects that the reader was cut off before the end of the list, which stays whole for the next one.
  private func expectCut(_ reader: SteppedClient) throws {
    #expect(bench.isClosed(reader.descriptor) && !reader.isEnded)
    #expect(reader.plaintext.count < rows.count * 38)
    #expect(try stored() == rows.count)
  }

  @Test("A certificate that stays valid reads to the end")
  func valid() throws {
    let reader = try reader(directory.providerIdentity())
    bench.advance(toMilliseconds: 11_000)
    try readOn(reader)
    #expect(reader.isEnded)
    #expect(reader.plaintext.count == rows.count * 38)
  }

  @Test("A certificate that is revoked ends it at once")
  func revoked() throws {
    let identity = try directory.providerIdentity()
    let reader = try reader(identity)
    try directory.revoke(identity)
    bench.worker.replace(trust: try directory.data.trust(generation: 2, allowsES512: false))
    try expectCut(reader)
  }

  private func reader(expiresIn seconds: Int64) throws -> SteppedClient {
    let start = bench.network.startSeconds
    return try reader(
      directory.providerIdentity(
        validity: Validity(notBefore: start - 60, notAfter: start + seconds)))
  }

  @Test("A certificate that expires ends a reader that reads nothing")
  func expired() throws {
    let reader = try reader(expiresIn: 10)
    bench.advance(toMilliseconds: 9_000)
    #expect(!bench.isClosed(reader.descriptor))
    bench.advance(toMilliseconds: 13_000)
    try expectCut(reader)
  }

  @Test("A certificate that expires ends a reader that reads slowly")
  func expiredSlowly() throws {
    let reader = try reader(expiresIn: 70)
    for milliseconds in [20_000, 40_000, 60_000] as [UInt64] {
      bench.advance(toMilliseconds: milliseconds)
      bench.setRoom(10, reader.descriptor)
    }
    #expect(!bench.isClosed(reader.descriptor))
    bench.advance(toMilliseconds: 73_000)
    try expectCut(reader)
  }

  @Test("A reader that reads nothing for 30 seconds is cut off")
  func stalled() throws {
    let reader = try reader(directory.providerIdentity())
    bench.advance(toMilliseconds: 29_000)
    #expect(!bench.isClosed(reader.descriptor))
    bench.advance(toMilliseconds: 33_000)
    try expectCut(reader)
  }

  @Test("Removing the authority ends its readers, and those of the new one stay")
  func authority() throws {
    let data = directory.data
    let now = TestDirectory.nowSeconds
    let old = try reader(directory.providerIdentity())
    _ = try data.rotateAuthority(.service, nowSeconds: now)
    bench.worker.replace(trust: try data.trust(generation: 2, allowsES512: false))
    #expect(!bench.isClosed(old.descriptor))
    _ = try data.finishRotation(of: .service, nowSeconds: now)
    bench.worker.replace(trust: try data.trust(generation: 3, allowsES512: false))
    try expectCut(old)
  }
}
