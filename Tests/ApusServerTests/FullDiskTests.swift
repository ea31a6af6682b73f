import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTesting
import DiskFaults
import Foundation
import Glibc
import Testing

@testable import ApusDirectory
@testable import ApusAdmin
@testable import ApusServer

/// A complete service with its store on a file system of a few megabytes. Mounting requires root.
@Suite(
  "A service with a full disk", .serialized, .enabled(if: getuid() == 0, "mounting takes root"))
final class FullDiskServiceTests {
  private let directory: TestDirectory
  private let disk: SmallFileSystem
  private let log: AwaitedLog
  private let options: TestService.Options
  private var storePath: String { directory.data.storePath }
  private var lostAndFound: String { storePath + "/lost+found" }
  private var ballast: String { lostAndFound + "/ballast" }

  init() throws {
    let log = AwaitedLog()
    self.log = log
    options = TestService.Options {
      $0.isEphemeral = false
      $0.logLevel = .warning
      $0.logSink = { log.add($0) }
    }
    directory = try TestDirectory()
    let storePath = directory.data.storePath
    try Files.makeDirectory(storePath)
    disk = try SmallFileSystem(.ext4, at: storePath, megabytes: 32)
    // As at the root of an ext4 volume.
    if !FileManager.default.fileExists(atPath: lostAndFound) {
      try Files.makeDirectory(lostAndFound)
    }
    // For an operator to delete: opening the store again needs as much room as its log.
    try Data(count: 20 << 20).write(to: URL(filePath: ballast))
  }

  /// Fills the remaining space with the ballast.
  private func fillDisk() { SmallFileSystem.fill(ballast) }

  @Test("A damaged store on its own volume is copied to another one, including long files")
  func copyToAnotherVolume() throws {
    let service = try TestService(directory, options)
    _ = try service.connect().token()
    service.stop()
    let log = try #require(try Files.names(in: storePath).filter { $0.hasSuffix(".log") }.max())
    try Data([1, 2, 3]).write(to: URL(filePath: "\(storePath)/\(log)"))
    // Longer than any file that is read at once; all zeros, which take no space.
    let long = 17 << 20
    #expect(FileManager.default.createFile(atPath: "\(storePath)/long", contents: nil))
    #expect(truncate("\(storePath)/long", long) == 0)
    let copy = try #require(try directory.data.acceptLoss(nowSeconds: 7).copy)
    #expect(try Data(contentsOf: URL(filePath: "\(copy)/\(log)")) == Data([1, 2, 3]))
    #expect(try Data(contentsOf: URL(filePath: "\(copy)/long")).count == long)
    let again = try TestService(directory, options)
    defer { again.stop() }
    _ = try again.connect().token()
  }

  private func payload(_ number: Int) -> [UInt8] {
    Array(
      #"{"aps":{"alert":"\#(number)"},"filler":"\#(String(repeating: "x", count: 3000))"}"#.utf8)
  }

  /// Sends pushes until one gets `status`; returns the number of the last one with 200 before.
  private func push(
    _ numbers: PartialRangeFrom<Int>, to token: String, _ service: TestService, until status: Int,
    fillingDisk fillsDisk: Bool = false
  ) throws -> Int {
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    let deadline = EventLoop.monotonicMilliseconds() + 60_000
    var accepted = numbers.lowerBound - 1
    for number in numbers {
      // Repeatedly, because the engine frees space when it removes a log.
      if fillsDisk, number % 64 == 0 { fillDisk() }
      let response = try provider.exchange(headers, body: payload(number))
      if response.status == 200 { accepted = number }
      if response.status == status { return accepted }
      if response.status != 200 { expectRefusal(response, 503, "ServiceUnavailable") }
      try #require(EventLoop.monotonicMilliseconds() < deadline, "no answer \(status)")
    }
    return accepted
  }

  /// Receives a device's stored notification. The store may be between two attempts to open it.
  private func fetch(_ device: TestDevice, _ service: TestService) throws -> [UInt8]? {
    while true {
      if let connected = try? service.connect(device) {
        defer { connected.client.tls.close() }
        try connected.filter([(2, TestDirectory.topic)])
        if let frame = try? connected.notification() { return frame[3] }
      }
      try log.await("store event=")
    }
  }

  @Test("Full during operation: 503, devices stay connected, and automatic recovery")
  func running() throws {
    let service = try TestService(directory, options)
    defer { service.stop() }
    let (absent, absentToken) = try service.absentDevice()
    let present = try service.connect()
    let presentToken = try present.token()
    try present.enable(TestDirectory.topic)
    _ = try push(0..., to: absentToken, service, until: 200)
    fillDisk()
    let last = try push(1..., to: absentToken, service, until: 503, fillingDisk: true)
    fillDisk()
    // It is connected, and stays so.
    try present.settle()
    // Accepted notifications can be read.
    #expect(try fetch(absent, service) == payload(last))
    try present.settle()
    unlink(ballast)
    let accepted = try push(1_000_000..., to: presentToken, service, until: 200)
    // Pushes answered with 503 may arrive as well: they were in flight when the store refused them.
    var arrived: [[UInt8]?] = []
    repeat {
      let notification = try present.notification()
      try present.acknowledge(notification)
      arrived.append(notification[3])
    } while arrived.last != payload(accepted)
    #expect(arrived.count { $0 == payload(accepted) } == 1)
    try present.settle()
    #expect(service.service.topicCounters().allSatisfy { $0.isBalanced })
  }

  @Test("Read-only after a disk error: 503 with the reason, and devices stay connected")
  func failed() throws {
    let service = try TestService(directory, options)
    defer { service.stop() }
    let (absent, absentToken) = try service.absentDevice()
    let present = try service.connect()
    _ = try push(0..., to: absentToken, service, until: 200)
    guard try disk.failDisk() else { return }
    _ = try push(1..., to: absentToken, service, until: 503)
    try present.settle()
    #expect(try fetch(absent, service) == payload(0))
    try log.await("read-only file system")
    try present.settle()
  }

  @Test("Full at the start: it starts, answers 503, delivers stored notifications, and recovers")
  func starting() throws {
    let first = try TestService(directory, options)
    let (device, token) = try first.absentDevice()
    _ = try push(0..., to: token, first, until: 200)
    first.stop()
    fillDisk()
    let service = try TestService(directory, options)
    defer { service.stop() }
    _ = try push(1..., to: token, service, until: 503, fillingDisk: true)
    #expect(try fetch(device, service) == payload(0))
    unlink(ballast)
    let accepted = try push(1_000..., to: token, service, until: 200)
    #expect(try fetch(device, service) == payload(accepted))
  }
}

@Suite("Reports about a store that accepts no writes")
struct StoreProblemTests {
  @Test("Providers get an answer, and operators the problem, the place and the remedy")
  func text() throws {
    let fault = StoreError.diskFull(path: "/var/lib/apus/store", detail: "while appending")
    let text = try #require(
      ServiceView.problem(ofStoreThatTakesWrites: false, fault: fault))
    for words in ["503", "no space left", "/var/lib/apus/store", "free space"] {
      #expect(text.contains(words), "\(text)")
    }
    #expect(ServiceView.problem(ofStoreThatTakesWrites: true, fault: nil) == nil)
  }
}
