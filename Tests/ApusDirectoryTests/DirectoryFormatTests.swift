import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import Foundation
import Testing

@Suite("The format of the data directory")
struct DirectoryFormatTests {
  private let temporary = TemporaryDirectory()

  /// A directory that version 0.1 left, with a device that has a token, two stored notifications, a revoked key, a
  /// retired device and a one-time code.
  private func version01() throws -> DataDirectory {
    let archive = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../DataDirectories/0.1.tar.gz").standardized
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/tar")
    process.arguments = ["-xzf", archive.path, "-C", temporary.path]
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0)
    return DataDirectory(path: "\(temporary.path)/d")
  }

  private func format(_ data: DataDirectory) throws -> String {
    try Files.readText("\(data.path)/format")
  }

  private func stored(_ data: DataDirectory) throws -> Int {
    try data.storedNotificationCount()
  }

  @Test("A new directory has the newest format")
  func new() throws {
    let directory = try TestDirectory()
    let data = directory.data
    #expect(try format(data) == "apus directory format \(DataDirectory.formatVersion)\n")
    #expect(try data.migrate() == nil)
  }

  @Test("A directory of version 0.1 is migrated, once, and keeps everything")
  func migrated() throws {
    let data = try version01()
    let before = try data.records()
    #expect(StoreCheck.findings(data).map(\.text) == ["intact, with 2 notifications and 1 device"])
    #expect(try data.migrate() == 1)
    #expect(try data.migrate() == nil)
    #expect(try format(data) == "apus directory format 2\n")
    #expect(FileManager.default.fileExists(atPath: data.revocationListPath))
    #expect(!FileManager.default.fileExists(atPath: "\(data.path)/directory.conf.lock"))
    #expect(try data.records() == before)
    let trust = try data.trust(generation: 1, allowsES512: false).directory
    #expect(
      trust.apps.count == 2 && trust.keys.count == 2 && trust.keys.count { $0.isRevoked } == 1)
    #expect(try stored(data) == 2)
  }

  @Test("A service migrates it at its start, and serves what is stored")
  func served() throws {
    let data = try version01()
    var configuration = ServerConfiguration(
      dataDirectory: data.path,
      listeners: [
        ListenerConfiguration(
          kind: .provider, environment: .production, addresses: [.loopbackIPv4(port: 0)])
      ])
    configuration.workers = 1
    let service = try Service(configuration)
    try service.start()
    #expect(service.topicCounters().reduce(0) { $0 + $1.pending } == 2)
    service.stop()
    #expect(try format(data) == "apus directory format 2\n")
    #expect(try stored(data) == 2)
  }

  @Test("A backup of version 0.1's directory can be restored")
  func backedUp() throws {
    let data = try version01()
    try data.backUp(to: "\(temporary.path)/backup")
    let other = DataDirectory(path: "\(temporary.path)/other")
    let report = try other.restore("\(temporary.path)/backup")
    #expect(report.endedTokens == 1 && report.withdrawnCodes == 1)
    #expect(try stored(other) == 2)
    #expect(try other.migrate() == 1)
  }

  @Test("A store of version 0.1 gets the tables that were added since, and they are examined")
  func laterTables() async throws {
    let data = try version01()
    let token = RelayedToken(
      app: AppID(1), environment: .production, digest: RelayDigest(high: 1, low: 2))
    let dead = DeadTokenRecord(token: token, sinceMilliseconds: 3, notedSeconds: 4)
    let store = try RocksStore(path: data.storePath)
    #expect(await put(store, DeadTokenRecord.key(of: token), dead.encoded().span.copied()) == nil)
    store.close()
    #expect(StoreCheck.findings(data).map(\.text) == ["intact, with 2 notifications and 1 device"])
    let again = try RocksStore(path: data.storePath)
    #expect(await put(again, DeadTokenRecord.key(of: token), [1]) == nil)
    again.close()
    let finding = StoreCheck.findings(data).first
    #expect(finding?.state == .bad)
    #expect(finding?.text.hasPrefix("1 row of relay cannot be read") == true, "\(finding as Any)")
  }

  private func put(
    _ store: RocksStore, _ key: InlineArray<22, UInt8>, _ value: [UInt8]
  ) async -> StoreError? {
    await withCheckedContinuation { continuation in
      var group = store.makeGroup()
      group.put(.relay, key: key.span, value: value.span)
      store.commit(group) { continuation.resume(returning: $0) }
    }
  }

  @Test("A migration does not hide that a folder of revocation lists is missing")
  func missingLists() throws {
    let directory = try TestDirectory()
    let data = directory.data
    try FileManager.default.removeItem(atPath: "\(data.path)/format")
    try FileManager.default.removeItem(atPath: data.revocationListPath)
    #expect(try data.migrate() == 1)
    #expect(!FileManager.default.fileExists(atPath: data.revocationListPath))
  }

  @Test("A directory of a later version is refused by every command, and left as it is")
  func later() throws {
    let directory = try TestDirectory()
    let data = directory.data
    try Files.write("apus directory format 3\n", to: "\(data.path)/format", isPrivate: false)
    let before = try tree(data.path)
    for attempt: () throws -> Void in [
      { try data.requireProvisioned() }, { _ = try TestService(directory) },
      { _ = try data.addTeam(name: "Team") }, { try data.backUp(to: "\(temporary.path)/backup") },
    ] {
      let error = #expect(throws: DirectoryProblem.self) { try attempt() }
      #expect(error?.description.contains("has format 3") == true)
    }
    #expect(try tree(data.path).filter { $0.key != "lock" } == before.filter { $0.key != "lock" })
  }

  @Test(
    "An unreadable number is no old format", arguments: ["", "apus directory format x\n", "2\n"])
  func unreadable(text: String) throws {
    let directory = try TestDirectory()
    let data = directory.data
    try Files.write(text, to: "\(data.path)/format", isPrivate: false)
    let error = #expect(throws: DirectoryProblem.self) { try data.requireProvisioned() }
    #expect(error?.description.contains("restore it from a backup") == true)
  }
}
