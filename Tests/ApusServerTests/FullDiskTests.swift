import ApusLoop
import ApusModel
import ApusStore
import ApusTesting
import Foundation
import Glibc
import Testing

@testable import ApusServer

/// A whole service whose store is on a file system of a few megabytes. Mounting one takes root.
@Suite(
  "A service whose disk is full", .serialized, .enabled(if: getuid() == 0, "mounting takes root"))
final class FullDiskServiceTests {
  private let directory: TestDirectory
  private let log: AwaitedLog
  private let options: TestService.Options
  private var storePath: String { directory.data.storePath }
  private var ballast: String { storePath + "/lost+found" }

  init() throws {
    let log = AwaitedLog()
    self.log = log
    options = TestService.Options {
      $0.isEphemeral = false
      $0.logLevel = .warning
      $0.logSink = { log.add($0) }
    }
    directory = try TestDirectory()
    try Files.makeDirectory(storePath)
    try #require(mount("tmpfs", storePath, "tmpfs", 0, "size=16m") == 0, "errno \(errno)")
  }

  deinit { umount2(storePath, Int32(MNT_DETACH)) }

  /// Takes what is still free.
  private func fillDisk() {
    let file = open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { close(file) }
    var chunk = [UInt8](repeating: 0, count: 4096)
    while write(file, &chunk, chunk.count) > 0 {}
  }

  private func payload(_ number: Int) -> [UInt8] {
    Array(
      #"{"aps":{"alert":"\#(number)"},"filler":"\#(String(repeating: "x", count: 3000))"}"#.utf8)
  }

  /// Pushes until one is answered with `status`; the number of the last one with 200 before that.
  private func push(
    _ numbers: PartialRangeFrom<Int>, to token: String, _ service: TestService, until status: Int
  ) throws -> Int {
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    let deadline = EventLoop.monotonicMilliseconds() + 60_000
    var accepted = numbers.lowerBound - 1
    for number in numbers {
      let response = try provider.exchange(headers, body: payload(number))
      if response.status == 200 { accepted = number }
      if response.status == status { return accepted }
      if response.status != 200 { expectRefusal(response, 503, "ServiceUnavailable") }
      try #require(EventLoop.monotonicMilliseconds() < deadline, "no answer \(status)")
    }
    return accepted
  }

  /// Gets what waits for a device. The store may be between two attempts to open it, and says how they end.
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

  @Test("Full while it runs: 503, devices stay and are served, and it recovers by itself")
  func running() throws {
    let service = try TestService(directory, options)
    defer { service.stop() }
    let (absent, absentToken) = try service.absentDevice()
    let present = try service.connect()
    let presentToken = try present.token()
    try present.enable(TestDirectory.topic)
    _ = try push(0..., to: absentToken, service, until: 200)
    fillDisk()
    let last = try push(1..., to: absentToken, service, until: 503)
    fillDisk()
    // It is there, and stays.
    try present.settle()
    // What was accepted can be read.
    #expect(try fetch(absent, service) == payload(last))
    try present.settle()
    unlink(ballast)
    let accepted = try push(1_000_000..., to: presentToken, service, until: 200)
    // What was answered 503 may arrive as well: it was on its way when the store refused it.
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

  @Test("Full when it starts: it starts, answers 503, delivers what waits, and recovers by itself")
  func starting() throws {
    let first = try TestService(directory, options)
    let (device, token) = try first.absentDevice()
    _ = try push(0..., to: token, first, until: 200)
    first.stop()
    fillDisk()
    let service = try TestService(directory, options)
    defer { service.stop() }
    _ = try push(1..., to: token, service, until: 503)
    #expect(try fetch(device, service) == payload(0))
    unlink(ballast)
    let accepted = try push(1_000..., to: token, service, until: 200)
    #expect(try fetch(device, service) == payload(accepted))
  }
}

@Suite("What an operator is told of a store that takes no writes")
struct StoreProblemTests {
  @Test("What providers are answered, what is wrong, where, and what to do")
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
