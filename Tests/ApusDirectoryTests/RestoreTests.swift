import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import ApusTrust
import DiskFaults
import Foundation
import Testing

@Suite("Restoring backups")
struct RestoreTests {
  private let directory: TestDirectory
  private let temporary = TemporaryDirectory()
  private var data: DataDirectory { directory.data }
  private var target: String { "\(temporary.path)/backup" }
  private var other: DataDirectory { DataDirectory(path: "\(temporary.path)/other") }

  init() throws { directory = try TestDirectory() }

  private func makeCode() throws {
    _ = try data.enrolmentCodes.make(
      .init(name: nil, madeSeconds: 1, expiresSeconds: 4_000_000_000, uses: 2))
  }

  private func numbers(_ directory: DataDirectory) throws -> CountedNumbers {
    let store = try directory.openStore(RocksOptions())
    defer { store.close() }
    return try CountedNumbers(of: store)
  }

  @Test("An empty directory gets the whole content, without one-time codes")
  func empty() throws {
    try makeCode()
    let store = try data.openStore(RocksOptions())
    store.close()
    try data.backUp(to: target)
    let report = try other.restore(target)
    #expect(report.madeSeconds == DataDirectory.nowSeconds)
    #expect(report.replaced == nil && report.kept.isEmpty && report.withdrawnCodes == 1)
    #expect(report.endedTokens == 0)
    let restored = try tree(other.path).filter { !$0.key.hasPrefix("store/") && $0.key != "lock" }
    let saved = try tree("\(target)/data").filter {
      !$0.key.hasPrefix("store/") && !$0.key.hasPrefix("enrolment/codes/")
    }
    #expect(restored == saved)
    #expect(FileManager.default.fileExists(atPath: other.revocationListPath))
    for (file, expected) in [
      ("sealing.keys", 0o600), ("authority/devices.key", 0o600), ("authority/devices.crt", 0o644),
      ("directory.conf", 0o644), ("store/FORMAT", 0o600), ("keys", 0o700),
    ] {
      #expect(try mode("\(other.path)/\(file)") == expected, "\(file)")
    }
    _ = try other.trust(generation: 1, allowsES512: true)
  }

  @Test("Each restore raises the numbers above those of the backup and of the directory")
  func numbersRise() throws {
    let store = try data.openStore(RocksOptions())
    store.close()
    try data.backUp(to: target)
    #expect(try numbers(data).firstGeneration == 1)
    _ = try data.restore(target)
    #expect(try numbers(data).firstGeneration == 301)
    #expect(try numbers(data).orderCeiling == 1 << 40)
    _ = try data.restore(target, keepsTokens: true)
    #expect(try numbers(data).firstGeneration == 601)
    #expect(try numbers(data).orderCeiling == 2 << 40)
  }

  @Test("What was revoked, retired or used since the backup stays so")
  func revocationsStay() throws {
    try makeCode()
    try Data("then".utf8).write(to: URL(filePath: "\(data.path)/webhooks.conf"))
    try data.backUp(to: target)
    let retired = try directory.device().id
    try data.revokeKey(directory.topicKey.id)
    try data.retire(retired, nowSeconds: 5)
    let fingerprint = SHA256Digest(of: [1, 2, 3].span)
    try data.revokeCertificate(fingerprint)
    try data.removeApp(TestDirectory.foreignTopic)
    try data.addApp("com.example.new", team: directory.team)
    let codes = data.enrolmentCodes
    #expect(try codes.withdraw(hash: try #require(codes.all().first).hash))
    _ = try data.rotateSealingKey()
    try Data("tokens".utf8).write(to: URL(filePath: "\(data.path)/admin.tokens"))
    try Data("now".utf8).write(to: URL(filePath: "\(data.path)/webhooks.conf"))
    let labels = "\(retired.text)\tkitchen\n"
    try Data(labels.utf8).write(to: URL(filePath: data.labelFile))
    try Files.makeDirectory("\(data.path)/webhooks")
    try Data("event".utf8).write(to: URL(filePath: "\(data.path)/webhooks/events-9.jsonl"))
    let sealing = try data.sealingKeys().keys.map(\.id)
    let report = try data.restore(target)
    #expect(
      Set(report.kept) == [
        "revoked key \(directory.topicKey.id.text)", "retired device \(retired.text)",
        "revoked certificate \(fingerprint.hex)",
      ])
    #expect(
      Set(report.differences) == [
        "not in the backup, so it is gone: app com.example.new",
        "removed since the backup, and back now: app \(TestDirectory.foreignTopic)",
      ])
    let sections = try data.records().sections
    func section(_ kind: String, _ name: String) -> SectionFile.Section? {
      sections.first { $0.kind == kind && $0.name == name }
    }
    #expect(section("key", directory.topicKey.id.text)?["revoked"] == "yes")
    #expect(section("retired", retired.text)?["since"] == "5")
    #expect(section("revoked", fingerprint.hex) != nil)
    #expect(try Files.readText(data.labelFile) == labels)
    #expect(section("app", TestDirectory.foreignTopic) != nil)
    #expect(section("app", "com.example.new") == nil)
    #expect(try codes.all().isEmpty)
    #expect(try data.sealingKeys().keys.map(\.id) == sealing)
    #expect(try Files.readText("\(data.path)/admin.tokens") == "tokens")
    #expect(try Files.readText("\(data.path)/webhooks.conf") == "now")
    #expect(try Files.readText("\(data.path)/webhooks/events-9.jsonl") == "event")
    // The old content is there to look things up.
    let replaced = DataDirectory(path: try #require(report.replaced))
    #expect(try replaced.records().sections.contains { $0.name == "com.example.new" })
  }

  @Test("The backup of another service is refused")
  func otherService() throws {
    let foreign = try TestDirectory()
    try foreign.data.backUp(to: target)
    let before = try tree(data.path)
    let error = #expect(throws: DirectoryProblem.self) { try data.restore(target) }
    #expect(error?.description.contains("another service") == true)
    #expect(try tree(data.path) == before)
  }

  @Test("A directory with other files is left alone")
  func foreignFiles() throws {
    try data.backUp(to: target)
    try FileManager.default.createDirectory(
      atPath: other.path, withIntermediateDirectories: false)
    try Data().write(to: URL(filePath: "\(other.path)/photo.jpg"))
    let error = #expect(throws: DirectoryProblem.self) { try other.restore(target) }
    #expect(error?.description.contains("photo.jpg") == true)
    #expect(try tree(other.path).keys.sorted() == ["photo.jpg"])
  }

  @Test("A running service is not disturbed", arguments: [true, false])
  func running(isEphemeral: Bool) throws {
    try data.backUp(to: target)
    let service = try TestService(directory, .init { $0.isEphemeral = isEphemeral })
    defer { service.stop() }
    let before = try Set(FileManager.default.contentsOfDirectory(atPath: data.path))
    let error = #expect(throws: (any Error).self) { try data.restore(target) }
    #expect(error.map { "\($0)".contains("runs") } == true)
    #expect(try Set(FileManager.default.contentsOfDirectory(atPath: data.path)) == before)
  }

  // MARK: Interrupted restores

  /// Makes a backup, and then the directory and its store newer than it.
  private func prepare() throws {
    let store = try data.openStore(RocksOptions())
    store.close()
    try data.backUp(to: target)
    try data.addApp("com.example.new", team: directory.team)
    let again = try data.openStore(RocksOptions())
    let written = DispatchSemaphore(value: 0)
    var group = again.makeGroup()
    group.put(.meta, key: [9].span, value: [1].span)
    again.commit(group) { _ in written.signal() }
    written.wait()
    again.close()
  }

  /// Whether the directory has the backup's content; its store must be of the same time.
  private func isRestored(_ data: DataDirectory) throws -> Bool {
    _ = try data.trust(generation: 1, allowsES512: true)
    let isNew = try data.records().sections.contains { $0.name == "com.example.new" }
    let store = try data.openStore(RocksOptions())
    defer { store.close() }
    #expect(try (store.get(.meta, key: [9].span) != nil) == isNew)
    return !isNew
  }

  @Test("A restore that fails before its content is complete changes nothing")
  func failed() throws {
    try prepare()
    var calls = 0
    var failures = 0
    while true {
      let fault = DiskFault(.writesFail, below: data.path, after: calls)
      let succeeded = (try? data.restore(target)) != nil
      fault.end()
      if succeeded || data.interruptedRestore != nil { break }
      #expect(try !isRestored(data))
      failures += 1
      calls += 40
    }
    #expect(failures > 3)
  }

  /// A directory in which a restore was interrupted when its content had just been completed.
  private func interrupt() throws {
    try prepare()
    // The entry that is moved away first.
    let fault = DiskFault(.writesFail, below: "\(data.path)/certificates")
    #expect(throws: FileError.self) { try data.restore(target) }
    fault.end()
    let files = FileManager.default
    let name = try #require(
      files.contentsOfDirectory(atPath: data.path).first { $0.hasPrefix("replaced-") })
    for entry in try files.contentsOfDirectory(atPath: "\(data.path)/\(name)") {
      try files.moveItem(atPath: "\(data.path)/\(name)/\(entry)", toPath: "\(data.path)/\(entry)")
    }
    try files.removeItem(atPath: "\(data.path)/\(name)")
    #expect(data.interruptedRestore != nil)
  }

  @Test("An interrupted restore is finished from wherever it stopped, and until then nothing runs")
  func finished() throws {
    try interrupt()
    #expect(throws: DirectoryProblem.self) { try TestService(directory) }
    #expect(throws: DirectoryProblem.self) { try data.backUp(to: "\(temporary.path)/second") }
    var interruptions = 0
    for calls in 0... {
      let copy = DataDirectory(path: "\(temporary.path)/copy-\(calls)")
      try FileManager.default.copyItem(atPath: data.path, toPath: copy.path)
      defer { try? FileManager.default.removeItem(atPath: copy.path) }
      let fault = DiskFault(.writesFail, below: copy.path, after: calls)
      let succeeded = (try? copy.finishRestore()) != nil
      fault.end()
      if copy.interruptedRestore != nil {
        interruptions += 1
        #expect(!succeeded)
        #expect(throws: DirectoryProblem.self) { try copy.requireProvisioned() }
        #expect(try copy.finishRestore())
      }
      #expect(try isRestored(copy), "after \(calls) calls")
      #expect(try !copy.finishRestore())
      let old = DataDirectory(path: "\(copy.path)/replaced-\(DataDirectory.nowSeconds + 60)")
      #expect(try !isRestored(old))
      if succeeded { break }
    }
    // More than twice as many as there are entries.
    #expect(interruptions > 24)
  }
}
