import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTesting
import ApusWeb
import DiskFaults
import Foundation
import Glibc
import Testing

@testable import ApusAdmin
@testable import ApusServer

/// Log lines of a service, with a way to wait for them.
final class AwaitedLog: @unchecked Sendable {
  private let condition = NSCondition()
  private var lines: [String] = []
  private var seen = 0

  func add(_ line: String) {
    condition.withLock {
      lines.append(line)
      condition.broadcast()
    }
  }

  /// Waits for a line that contains `words`, after the lines already waited for.
  func await(_ words: String) throws {
    try condition.withLock {
      let deadline = Date(timeIntervalSinceNow: 60)
      while true {
        while seen < lines.count {
          seen += 1
          if lines[seen - 1].contains(words) { return }
        }
        guard condition.wait(until: deadline) else {
          throw RawFault.unexpected("no line '\(words)' in \(lines)")
        }
      }
    }
  }
}

/// A service on a data directory that outlives it, with its clients.
final class DiskBench {
  let directory: TestDirectory
  let log = AwaitedLog()
  private(set) var service: TestService?
  private let options: TestService.Options
  /// More than a test sends to one device.
  static let retained = 64

  init(_ given: TestDirectory? = nil) throws {
    directory = try given ?? TestDirectory()
    let log = log
    options = TestService.Options {
      $0.isEphemeral = false
      $0.logLevel = .warning
      $0.logSink = { log.add($0) }
      $0.admin = AdminConfiguration(hasSocket: true, version: "1.2.3")
    }
    var records = try directory.data.records()
    for index in records.sections.indices
    where records.sections[index].kind == "app"
      && records.sections[index].name == TestDirectory.topic
    {
      records.sections[index].values.append((key: "retain", value: "\(Self.retained)"))
    }
    try directory.data.save(records)
  }

  deinit { service?.stop() }

  @discardableResult
  func start() throws -> TestService {
    let started = try TestService(directory, options)
    service = started
    return started
  }

  func stop() {
    service?.stop()
    service = nil
  }

  var running: TestService { get throws { try #require(service) } }

  static func payload(_ text: String) -> [UInt8] { Array(#"{"aps":{"alert":"\#(text)"}}"#.utf8) }

  /// Sends a push that may be stored; returns the status.
  func push(_ text: String, to token: String) throws -> Int? {
    let response = try running.provider().exchange(
      headers(token, expiration: TestDirectory.nowSeconds + 10_000), body: Self.payload(text))
    if response.status != 200 { expectRefusal(response, 503, "ServiceUnavailable") }
    return response.status
  }

  /// The same while the store has no reserved numbers: retries until a push is accepted.
  func pushUntilTaken(_ text: String, to token: String) throws {
    for _ in 0..<1000 where try push(text, to: token) == 200 { return }
    throw RawFault.unexpected("every push was refused")
  }

  /// Sends pushes that must not be stored to a connected device, which receives them.
  func pushThrough(_ text: String, to device: ConnectedDevice, _ token: String) throws {
    let provider = try running.provider()
    let stream = try provider.request(
      headers(token, expiration: 0), body: Self.payload(text))
    let notification = try device.notification()
    #expect(notification[3] == Self.payload(text))
    try device.acknowledge(notification)
    #expect(try provider.response(to: stream).status == 200)
  }

  private func headers(_ token: String, expiration: Int64) throws -> [RawHeader] {
    let service = try running
    return try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "\(expiration)")
  }

  /// The stored notifications of a device, oldest first; it acknowledges them, and none is sent again.
  func fetch(_ device: TestDevice) throws -> [[UInt8]?] {
    let connected = try running.connect(device)
    defer { connected.client.tls.close() }
    try connected.filter([(2, TestDirectory.topic)])
    var payloads: [[UInt8]?] = []
    var isLast = false
    while !isLast {
      let frame = try connected.notification()
      payloads.append(frame[3])
      try connected.acknowledge(frame)
      isLast = frame[7] == [3]
    }
    try connected.settle()
    return payloads
  }

  /// The readiness of the service, with the reason.
  func readiness() throws -> (status: Int, text: String) {
    let answer = try WebCall(.unix(path: directory.data.adminSocket), "GET", ["readyz"]).perform()
    return (answer.status, String(decoding: answer.body, as: UTF8.self))
  }

  /// Expects the service to be unready, with the reason, the place and the remedy.
  func expectUnready(_ words: String...) throws {
    let (status, text) = try readiness()
    #expect(status == 503)
    for word in words + ["503", directory.data.storePath] {
      #expect(text.contains(word), "\(text)")
    }
  }
}

/// The whole service on a disk that fails during operation and at the start.
@Suite("A service with a failing disk")
struct DiskFaultServiceTests {
  /// Injects `kind` into a store in use.
  private func begin(_ kind: DiskFault.Kind, _ bench: DiskBench) throws -> [DiskFault] {
    let path = bench.directory.data.storePath
    // Open files stay usable and only reopening fails, so a failed sync makes the store reopen them.
    return (kind == .noDescriptors ? [DiskFault(.syncsFail, below: path)] : [])
      + [DiskFault(kind, below: path)]
  }

  @Test(
    "During operation: 503 with the reason, devices stay connected, and automatic recovery",
    arguments: [DiskFault.Kind.readOnly, .writesFail, .syncsFail, .noDescriptors])
  func running(kind: DiskFault.Kind) throws {
    let bench = try DiskBench()
    let service = try bench.start()
    let (absent, absentToken) = try service.absentDevice()
    let (other, otherToken) = try service.absentDevice()
    let present = try service.connect()
    let presentToken = try present.token()
    try present.enable(TestDirectory.topic)
    for number in 1...3 { #expect(try bench.push("before \(number)", to: absentToken) == 200) }

    var faults = try begin(kind, bench)
    #expect(try bench.push("meanwhile", to: otherToken) == 503)
    try bench.log.await("still takes no writes")
    // Now the only fault is that no file can be opened.
    if kind == .noDescriptors { faults.removeFirst().end() }
    #expect(try bench.push("meanwhile", to: otherToken) == 503)
    try bench.expectUnready(kind.text)
    try present.settle()
    try bench.pushThrough("at once", to: present, presentToken)
    // Stored notifications reach their device if files can be opened.
    if kind != .noDescriptors {
      let early = try service.connect(absent)
      try early.filter([(2, TestDirectory.topic)])
      #expect(try early.notification()[3] == DiskBench.payload("before 1"))
      early.client.tls.close()
    }

    for fault in faults { #expect(fault.end() > 0) }
    try bench.log.await("takes writes again")
    #expect(try bench.readiness().status == 200)
    #expect(try bench.push("after", to: absentToken) == 200)
    #expect(try bench.push("after", to: otherToken) == 200)
    try bench.pushThrough("at last", to: present, presentToken)
    let payload = DiskBench.payload
    #expect(
      try bench.fetch(absent) == (1...3).map { payload("before \($0)") } + [payload("after")])
    // Pushes answered with 503 may have reached the disk, and their provider sends them again.
    #expect(try bench.fetch(other).filter { $0 != payload("meanwhile") } == [payload("after")])
    // Nothing is delivered twice.
    for device in [absent, other] { try service.connect(device).enable(TestDirectory.topic) }
    try present.settle()
    #expect(service.service.topicCounters().allSatisfy { $0.isBalanced })
  }

  @Test(
    "At the start: stored notifications are delivered, pushes get 503, and automatic recovery",
    arguments: [DiskFault.Kind.readOnly, .writesFail, .syncsFail])
  func starting(kind: DiskFault.Kind) throws {
    let bench = try DiskBench()
    let (device, token) = try bench.start().absentDevice()
    #expect(try bench.push("before", to: token) == 200)
    bench.stop()
    let fault = DiskFault(kind, below: bench.directory.data.storePath)
    let service = try bench.start()
    try bench.log.await("still takes no writes")
    #expect(try bench.push("meanwhile", to: token) == 503)
    try bench.expectUnready(kind.text)
    let present = try service.connect(device)
    try present.filter([(2, TestDirectory.topic)])
    #expect(try present.notification()[3] == DiskBench.payload("before"))
    try present.settle()
    fault.end()
    try bench.log.await("takes writes again")
    present.client.tls.close()
    try bench.pushUntilTaken("after", to: token)
    let arrived = try bench.fetch(device)
    #expect(
      arrived.filter { $0 != DiskBench.payload("meanwhile") }
        == ["before", "after"].map(DiskBench.payload))
  }

  @Test(
    "If no file of the store can be opened, the service does not start, and reports what failed",
    arguments: [DiskFault.Kind.gone, .noDescriptors])
  func unreadable(kind: DiskFault.Kind) throws {
    let bench = try DiskBench()
    try bench.start()
    bench.stop()
    let fault = DiskFault(kind, below: bench.directory.data.storePath)
    let error = #expect(throws: StoreError.self) { try bench.start() }
    for words in [bench.directory.data.storePath, kind.text, "check the disk"] {
      #expect(error.map { "\($0)" }?.contains(words) == true, "\(String(describing: error))")
    }
    #expect(fault.end() > 0)
    try bench.start()
  }
}
