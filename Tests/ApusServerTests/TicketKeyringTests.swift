import ApusDirectory
import ApusModel
import ApusTLS
import ApusTesting
import Foundation
import Synchronization
import Testing

@testable import ApusLog
@testable import ApusDirectory
@testable import ApusServer

@Suite("Session ticket keys")
struct TicketKeyringTests {
  private final class Clock: Sendable {
    let seconds = Mutex<Int64>(1_900_000_000)
    let lines = Mutex<[String]>([])
  }

  private let folder: TemporaryDirectory
  private let clock = Clock()
  private var path: String { folder.path + "/ticket.keys" }

  init() { folder = TemporaryDirectory() }

  private func keyring() -> TicketKeyring {
    let clock = clock
    let ring = TicketKeyring(
      DataDirectory(path: folder.path),
      log: Log(sink: { line in clock.lines.withLock { $0.append(line) } }),
      nowSeconds: { clock.seconds.withLock { $0 } })
    ring.begin()
    return ring
  }

  private func pass(_ seconds: Int64) { clock.seconds.withLock { $0 += seconds } }

  @Test("The keys are stored for the next process, readable by the owner only")
  func kept() throws {
    let first = keyring().keys.all
    pass(3600)
    #expect(keyring().keys.all == first)
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
  }

  @Test("A key encrypts for half a day, decrypts for a day longer, and is then removed")
  func rotation() {
    let ring = keyring()
    let first = ring.keys.all[0]
    ring.rotateIfDue()
    #expect(ring.keys.all == [first])
    pass(TicketKeyring.sealingSeconds)
    ring.rotateIfDue()
    #expect(ring.keys.all.count == 2 && ring.keys.all[1] == first)
    // The next process finds both, and creates one in time.
    pass(TicketKeyring.sealingSeconds)
    let second = keyring()
    #expect(second.keys.all.count == 3 && second.keys.all[2] == first)
    pass(TicketKeyring.sealingSeconds)
    #expect(!keyring().keys.all.contains(first))
    pass(10 * TicketKeyring.sealingSeconds)
    let last = keyring().keys.all
    #expect(last.count == 1 && !second.keys.all.contains(last[0]))
  }

  @Test("A key from the future is rejected")
  func future() {
    let first = keyring().keys.all
    pass(-60)
    let second = keyring().keys.all
    #expect(second.count == 1 && second != first)
  }

  @Test(
    "An invalid file is reported and replaced",
    arguments: ["1900000000 = 00", "later = \(String(repeating: "00", count: 80))", "nothing"])
  func unreadable(text: String) throws {
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    let first = keyring().keys.all
    #expect(first.count == 1)
    #expect(clock.lines.withLock { $0.count { $0.contains("ticket.keys") } } == 1)
    #expect(keyring().keys.all == first)
  }

  @Test("A start writes nothing if all stored keys are still used")
  func unchanged() throws {
    let first = keyring().keys.all
    let before = FileStamp(path)
    #expect(keyring().keys.all == first)
    #expect(FileStamp(path) == before)
    pass(TicketKeyring.sealingSeconds)
    #expect(keyring().keys.all != first)
    #expect(FileStamp(path) != before)
  }

  @Test("Reading the keys writes nothing, because another service may be using the file")
  func reading() {
    let clock = clock
    let log = Log(sink: { line in clock.lines.withLock { $0.append(line) } })
    let ring = TicketKeyring(DataDirectory(path: folder.path), log: log)
    #expect(ring.keys.all.count == 1)
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test("An edge uses the keys that its node has of another one, and makes none once it has them")
  func follower() throws {
    let clock = clock
    let ring = TicketKeyring(
      DataDirectory(path: folder.path), isFollower: true,
      log: Log(sink: { line in clock.lines.withLock { $0.append(line) } }),
      nowSeconds: { clock.seconds.withLock { $0 } })
    ring.begin()
    // Nothing is there yet: it has a key of its own, in memory.
    ring.follow()
    #expect(ring.keys.all.count == 1)
    #expect(!FileManager.default.fileExists(atPath: path))
    let owner = keyring()
    #expect(ring.keys.all != owner.keys.all)
    ring.follow()
    #expect(ring.keys.all == owner.keys.all)
    pass(TicketKeyring.sealingSeconds)
    ring.rotateIfDue()
    #expect(ring.keys.all == owner.keys.all)
    owner.rotateIfDue()
    ring.follow()
    #expect(ring.keys.all.count == 2 && ring.keys.all == owner.keys.all)
  }

  @Test("If the keys cannot be stored, the service continues and reports it")
  func unwritable() {
    let clock = clock
    let ring = TicketKeyring(
      DataDirectory(path: folder.path + "/missing"),
      log: Log(sink: { line in clock.lines.withLock { $0.append(line) } }))
    ring.begin()
    #expect(ring.keys.all.count == 1)
    #expect(clock.lines.withLock { $0.count } == 1)
  }

  @Test("Sessions are resumed after a restart of the service", arguments: [true, false])
  func restart(keepsFile: Bool) throws {
    let directory = try TestDirectory()
    let first = try TestService(directory, .init { $0.isEphemeral = false })
    let identity = try directory.providerIdentity()
    let client = try first.provider(identity: identity)
    let headers = try first.pushHeaders(to: Shared.absentToken, authorization: nil)
    _ = try client.exchange(headers, body: TestService.payload)
    let session = try #require(client.tls.session)
    first.stop()
    let file = DataDirectory(path: directory.data.path).ticketFile
    if !keepsFile { try FileManager.default.removeItem(atPath: file) }
    let second = try TestService(directory, .init { $0.isEphemeral = false })
    defer { second.stop() }
    let again = RawHTTP2Client(
      try second.tls(.provider, protocols: ["h2"], identity: identity, session: session))
    #expect(again.tls.isResumed == keepsFile)
  }
}
