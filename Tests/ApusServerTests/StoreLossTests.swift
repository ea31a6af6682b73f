import ApusDirectory
import ApusServer
import ApusStore
import ApusTesting
import Foundation
import Testing

@Suite("A data directory with a damaged or missing store")
struct StoreLossTests {
  private let directory: TestDirectory
  private let durable = TestService.Options { $0.isEphemeral = false }
  private var data: DataDirectory { directory.data }

  init() throws { directory = try TestDirectory() }

  /// A device with a token and a waiting notification.
  private func useOnce(
    _ payload: [UInt8] = TestService.payload
  ) throws -> (TestDevice, token: String) {
    let service = try TestService(directory, durable)
    defer { service.stop() }
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    device.client.tls.reset()
    #expect(try push(service, token, payload) == 200)
    return (device.device, token)
  }

  private func push(
    _ service: TestService, _ token: String, _ payload: [UInt8] = TestService.payload
  ) throws -> Int? {
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "\(TestDirectory.nowSeconds + 1000)")
    return try service.provider().exchange(headers, body: payload).status
  }

  private func expectRefusal(_ words: String...) {
    let error = #expect(throws: DirectoryProblem.self) { try TestService(directory, durable) }
    for word in words { #expect(error.map { "\($0)".contains(word) } == true, "\(error as Any)") }
  }

  @Test("Without its store the service does not start, and starts when the store is back")
  func unmounted() throws {
    let (_, token) = try useOnce()
    let away = data.path + "/away"
    try FileManager.default.moveItem(atPath: data.storePath, toPath: away)
    expectRefusal("is missing or empty", "apus store --accept-loss")
    // A mount point without its volume.
    try FileManager.default.createDirectory(
      atPath: data.storePath, withIntermediateDirectories: true)
    expectRefusal("is missing or empty")
    try FileManager.default.removeItem(atPath: data.storePath)
    try FileManager.default.moveItem(atPath: away, toPath: data.storePath)
    let service = try TestService(directory, durable)
    defer { service.stop() }
    #expect(try push(service, token) == 200)
  }

  @Test("If the operator accepts the loss, the service starts with an empty store")
  func acceptedLoss() throws {
    let (_, token) = try useOnce()
    try FileManager.default.removeItem(atPath: data.storePath)
    let repair = try data.acceptLoss(nowSeconds: 1)
    #expect(repair.copy == nil && repair.notifications == nil)
    let service = try TestService(directory, durable)
    defer { service.stop() }
    #expect(try push(service, token) == 410)
  }

  @Test(
    "A truncated MANIFEST prevents the start; readable data is kept when the loss is accepted"
  )
  func cutManifest() throws {
    let (device, token) = try useOnce()
    let name = try #require(
      FileManager.default.contentsOfDirectory(atPath: data.storePath)
        .filter { $0.hasPrefix("MANIFEST") }.max())
    let file = URL(filePath: "\(data.storePath)/\(name)")
    let content = try Data(contentsOf: file)
    try content.prefix(content.count * 60 / 100).write(to: file)
    expectRefusal("is damaged", name, "apus store --accept-loss")
    // Longer than any file that is read at once, like logs.
    try Data(count: 17 << 20).write(to: URL(filePath: "\(data.storePath)/long"))
    let repair = try data.acceptLoss(nowSeconds: 7)
    let long = URL(filePath: "\(data.storePath).damaged-7/long")
    #expect(try Data(contentsOf: long).count == 17 << 20)
    #expect(repair.copy == "\(data.storePath).damaged-7")
    #expect(
      try Data(contentsOf: URL(filePath: "\(data.storePath).damaged-7/\(name)")).count
        == content.count * 60 / 100)
    // The service starts again, and knows the device as far as the log contains it.
    let service = try TestService(directory, durable)
    defer { service.stop() }
    _ = try service.connect(device)
    #expect(try [200, 410].contains(push(service, token)))
  }

  private func storeFiles() throws -> [String: Data] {
    var files: [String: Data] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: data.storePath) {
      files[name] = try Data(contentsOf: URL(filePath: "\(data.storePath)/\(name)"))
    }
    return files
  }

  private var hasCopy: Bool {
    FileManager.default.fileExists(atPath: "\(data.storePath).damaged-7")
  }

  @Test("While the service runs no loss can be accepted, and nothing is changed")
  func running() throws {
    let (_, token) = try useOnce()
    let service = try TestService(directory, durable)
    #expect(throws: StoreError.locked(path: data.storePath)) { try data.acceptLoss(nowSeconds: 7) }
    #expect(!hasCopy)
    #expect(try push(service, token) == 200)
    service.stop()
  }

  @Test("A wrong checksum in the MANIFEST is refused also by the repair, and nothing is changed")
  func damagedManifest() throws {
    let (_, token) = try useOnce()
    let name = try #require(storeFiles().keys.filter { $0.hasPrefix("MANIFEST") }.max())
    let file = URL(filePath: "\(data.storePath)/\(name)")
    let content = try Data(contentsOf: file)
    var damaged = content
    damaged[8] ^= 0x10
    try damaged.write(to: file)
    expectRefusal("is damaged", name, "restore a backup, or move \(data.storePath) away")
    let before = try storeFiles()
    let error = #expect(throws: DirectoryProblem.self) { try data.acceptLoss(nowSeconds: 7) }
    #expect(error.map { "\($0)".contains("\(name): damaged at byte 0") } == true, "\(error as Any)")
    #expect(try storeFiles() == before && !hasCopy)
    // With the original file everything is there.
    try content.write(to: file)
    let service = try TestService(directory, durable)
    defer { service.stop() }
    #expect(try push(service, token) == 200)
  }

  @Test(
    "A flipped bit in a log prevents the start, and the extent of the loss is reported",
    // In the content, and in the type and the length of the first record, of which the engine reports nothing.
    arguments: [(20, 0x10), (6, 0x04), (5, 0x20)])
  func flippedBit(place: Int, bit: UInt8) throws {
    _ = try useOnce()
    let file = try #require(
      FileManager.default.contentsOfDirectory(atPath: data.storePath)
        .filter { $0.hasSuffix(".log") }.map { URL(filePath: "\(data.storePath)/\($0)") }
        .max { try Data(contentsOf: $0).count < Data(contentsOf: $1).count })
    var content = try Data(contentsOf: file)
    content[place] ^= bit
    try content.write(to: file)
    let finding = "\(file.lastPathComponent): damaged at byte 0"
    expectRefusal("is damaged", finding, "0 writes before that")
    let repair = try data.acceptLoss(nowSeconds: 7)
    #expect(repair.messages.first?.hasPrefix(finding) == true, "\(repair.messages)")
  }

  @Test("The copy of a damaged store keeps its journals unchanged while the service continues")
  func copiedJournals() throws {
    let (_, token) = try useOnce()
    func journals(of folder: String) throws -> [Data] {
      try (0..<durable.workers).map {
        try Data(contentsOf: URL(filePath: "\(folder)/ledger-journal-\($0)"))
      }
    }
    let before = try journals(of: data.storePath)
    let copy = try #require(try data.acceptLoss(nowSeconds: 7).copy)
    let service = try TestService(directory, durable)
    #expect(try push(service, token) == 200)
    service.stop()
    #expect(try journals(of: data.storePath) != before)
    #expect(try journals(of: copy) == before)
  }

  /// Makes the store write its log into tables, as at each start.
  private func writeTables() throws { try TestService(directory, durable).stop() }

  /// The table that contains `payload`.
  private func table(with payload: [UInt8]) throws -> String {
    let names = try FileManager.default.contentsOfDirectory(atPath: data.storePath)
      .filter { $0.hasSuffix(".sst") }
    return try #require(
      names.first { name in
        let content = try Data(contentsOf: URL(filePath: "\(data.storePath)/\(name)"))
        return content.range(of: Data(payload)) != nil
      })
  }

  @Test("A missing or truncated table loses only its contents", arguments: [true, false])
  func lostTable(isMissing: Bool) throws {
    let (_, firstToken) = try useOnce(TestService.payload)
    try writeTables()
    let other = Array(#"{"aps":{"alert":"other"}}"#.utf8)
    let (second, secondToken) = try useOnce(other)
    try writeTables()
    let name = try table(with: TestService.payload)
    let otherName = try table(with: other)
    try #require(name != otherName)
    let file = "\(data.storePath)/\(name)"
    if isMissing {
      try FileManager.default.removeItem(atPath: file)
    } else {
      try Data(contentsOf: URL(filePath: file)).prefix(100).write(to: URL(filePath: file))
    }
    expectRefusal("is damaged", name, "apus store --accept-loss")
    let repair = try data.acceptLoss(nowSeconds: 7)
    #expect(repair.copy == "\(data.storePath).damaged-7")
    #expect(repair.notifications == 1)
    #expect(
      repair.messages.contains { $0.hasPrefix("\(name): its contents are lost") },
      "\(repair.messages)")
    #expect(
      repair.messages.contains("lost notifications, by the store's counters: 1 of 2"),
      "\(repair.messages)")
    let service = try TestService(directory, durable)
    defer { service.stop() }
    let connected = try service.connect(second)
    try connected.filter([(2, TestDirectory.topic)])
    #expect(try connected.notification()[3] == other)
    // Both devices are known.
    for token in [firstToken, secondToken] { #expect(try push(service, token) == 200) }
  }

  @Test("A healthy store is counted without being changed")
  func check() throws {
    _ = try useOnce()
    #expect(try data.storedNotificationCount() == 1)
    #expect(try data.storedNotificationCount() == 1)
  }
}
