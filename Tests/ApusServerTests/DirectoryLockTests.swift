import ApusAdmin
import ApusCore
import ApusDirectory
import ApusModel
import ApusServer
import ApusTesting
import ApusTrust
import Foundation
import Synchronization
import Testing

/// Concurrent changes of a data directory do not lose each other.
@Suite("The lock of the data directory")
struct DirectoryLockTests {
  private let directory: TestDirectory
  private var data: DataDirectory { directory.data }

  init() throws { directory = try TestDirectory() }

  /// Runs `body` on several threads at once, and waits for all of them.
  private func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let group = DispatchGroup()
    for index in 0..<count {
      group.enter()
      Thread {
        body(index)
        group.leave()
      }.start()
    }
    group.wait()
  }

  @Test("A lock timeout reports the command and process that hold the lock, and changes nothing")
  func holder() throws {
    let words = Mutex("")
    let data = data
    try data.changing {
      onThreads(1) { _ in
        do {
          try data.changing(waitMilliseconds: 0) {}
        } catch {
          words.withLock { $0 = "\(error)" }
        }
      }
    }
    let text = words.withLock { $0 }
    #expect(text.contains("\(data.path)/lock"), "\(text)")
    #expect(text.contains("process \(getpid())"), "\(text)")
    #expect(text.contains("nothing was changed"), "\(text)")
    // The lock is free again.
    try data.changing(waitMilliseconds: 0) {}
  }

  @Test("Concurrent rotations run one after the other: every authority stays trusted")
  func rotations() throws {
    let failures = Mutex<[String]>([])
    let data = data
    let now = TestDirectory.nowSeconds
    onThreads(4) { _ in
      do {
        _ = try data.rotateAuthority(.devices, nowSeconds: now)
      } catch {
        failures.withLock { $0.append("\(error)") }
      }
    }
    #expect(failures.withLock { $0 } == [])
    let trust = try data.trust(generation: 1, allowsES512: false)
    #expect(trust.deviceAuthorities.certificates.count == 5)
    #expect(try data.authority(.devices).certificate == trust.deviceAuthorities.certificates[0])
    #expect(trust.deviceAuthorities.certificates.contains(directory.deviceAuthority.certificate))
  }

  @Test("Sealing keys and administration tokens created concurrently are all kept")
  func others() throws {
    let failures = Mutex<[String]>([])
    let data = data
    let now = TestDirectory.nowSeconds
    onThreads(8) { index in
      do {
        _ = try data.rotateSealingKey()
        _ = try data.addAdminToken(name: "token\(index)", scopes: .all, nowSeconds: now)
      } catch {
        failures.withLock { $0.append("\(error)") }
      }
    }
    #expect(failures.withLock { $0 } == [])
    #expect(try data.sealingKeys().keys.count == 9)
    #expect(try data.adminTokens().tokens.count == 8)
  }

  // MARK: directory.conf

  @Test("A line before the first section is an error with its number")
  func lineBeforeSections() throws {
    let text = try Files.readText(data.directoryFile)
    try Files.write("# ours\n\nrevoked = yes\n" + text, to: data.directoryFile, isPrivate: false)
    #expect {
      _ = try data.trust(generation: 1, allowsES512: false)
    } throws: { error in
      "\(error)".hasPrefix("\(data.directoryFile), line 3: ")
        && "\(error)".contains("before the first section")
    }
  }

  @Test(
    "A file without a section is an error, not a service without teams",
    arguments: ["", "# only\n"])
  func empty(text: String) throws {
    try Files.write(text, to: data.directoryFile, isPrivate: false)
    #expect {
      _ = try data.trust(generation: 1, allowsES512: false)
    } throws: { error in
      "\(error)".contains("\(data.directoryFile) is empty") && "\(error)".contains("backup")
    }
  }

  // MARK: A missing directory

  @Test("A service without its directory says so, rejects what it would store, and recovers")
  func gone() throws {
    let lines = Mutex<[String]>([])
    let service = try TestService(
      directory,
      .init {
        $0.isEphemeral = false
        $0.logSink = { line in lines.withLock { $0.append(line) } }
      })
    defer { service.stop() }
    let (_, token) = try service.absentDevice()
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    func status() throws -> Int? {
      usleep(20_000)
      return try provider.exchange(headers, body: Array(#"{"aps":{"alert":"x"}}"#.utf8)).status
    }
    #expect(try status() == 200)
    try FileManager.default.moveItem(atPath: data.path, toPath: data.path + ".away")
    try waitUntil("the line of the log") {
      lines.withLock { $0.contains { $0.contains("data directory lost") } }
    }
    try waitUntil("a rejection") { (try? status()) == 503 }
    try FileManager.default.moveItem(atPath: data.path + ".away", toPath: data.path)
    try waitUntil("acceptance") { (try? status()) == 200 }
  }
}
