import ApusModel
import Glibc

/// Somebody else changes the data directory, for longer than a change takes.
package struct DirectoryBusy: Error, CustomStringConvertible {
  package var description: String
}

/// The lock that commands, the service's administration and its enrolment thread take to change the data directory.
/// Without it are files that the service alone writes (`store/`, `ticket.keys`, `connect.nonces`), and lines that are
/// appended to `audit.jsonl`. It is waited for, so a worker's loop must not take it. The kernel releases it when the
/// process ends, for whatever reason.
struct DirectoryLock: ~Copyable {
  /// The directory that this thread has locked; its changes may be made of others.
  @TaskLocal static var held: String?

  private let descriptor: Int32

  /// - Parameter waitMilliseconds: For how long to wait for its holder.
  init(_ path: String, waitMilliseconds: Int) throws {
    descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw FileError(path: path, operation: "open", code: errno) }
    guard lockFile(descriptor, waitMilliseconds: waitMilliseconds) else {
      let code = errno
      Glibc.close(descriptor)
      guard code == EWOULDBLOCK else {
        throw FileError(path: path, operation: "lock", code: code)
      }
      let holder = (try? Files.readText(path).trimmed).map(String.init) ?? ""
      throw DirectoryBusy(
        description:
          "\(holder.isEmpty ? "another process" : holder) has locked \(path) for more than "
          + "\(waitMilliseconds) ms; nothing was changed, try again when it has ended")
    }
    writeHolder()
  }

  func unlock() { Glibc.close(descriptor) }

  /// For the messages of those who wait; without it, on a full disk, they name nobody.
  private func writeHolder() {
    let command = CommandLine.arguments.prefix(2).map { $0.split(separator: "/").last ?? "" }
    let text = Array("`\(command.joined(separator: " "))`, process \(getpid())\n".utf8)
    guard ftruncate(descriptor, 0) == 0 else { return }
    _ = unsafe text.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
  }
}

/// Locks an open file, and waits for whoever holds the lock. False, with `errno` set, if that takes longer
/// (EWOULDBLOCK) or fails.
func lockFile(_ descriptor: Int32, waitMilliseconds: Int) -> Bool {
  let retryMilliseconds = 20
  var triesLeft = waitMilliseconds / retryMilliseconds
  while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
    if errno == EINTR { continue }
    guard errno == EWOULDBLOCK, triesLeft > 0 else { return false }
    triesLeft -= 1
    usleep(UInt32(retryMilliseconds) * 1000)
  }
  return true
}

extension DataDirectory {
  var lockFile: String { "\(path)/lock" }

  /// Changes the directory while nobody else does. A change that is made of others takes the lock once.
  ///
  /// In a cluster the change is made on all nodes, or not at all: see ``SharedFiles``.
  package func changing<Value>(
    waitMilliseconds: Int = Limits.directoryLockMilliseconds, _ change: () throws -> Value
  ) throws -> Value {
    try changing(by: .anybody, waitMilliseconds, change)
  }

  /// Writes files that only the service writes, and that all nodes of a cluster share. Without a cluster it waits for
  /// nobody.
  ///
  /// In a cluster it fails once another node has taken over: that one has read the files, and writes them by now.
  package func sharing<Value>(_ change: () throws -> Value) throws -> Value {
    guard isInCluster else { return try change() }
    return try changing(by: .service, Limits.directoryLockMilliseconds, change)
  }

  private func changing<Value>(
    by author: SharedFiles.Author, _ waitMilliseconds: Int, _ change: () throws -> Value
  ) throws -> Value {
    if DirectoryLock.held == path { return try change() }
    if !Files.exists(path) { try requireProvisioned() }
    let lock = try DirectoryLock(lockFile, waitMilliseconds: waitMilliseconds)
    defer { lock.unlock() }
    return try DirectoryLock.$held.withValue(path) {
      guard let member = try clusterMember() else { return try change() }
      return try SharedFiles(self, member).change(by: author, change)
    }
  }

  /// Runs `body` while nobody changes the directory, without a change of its own.
  package func locked<Value>(
    waitMilliseconds: Int = Limits.directoryLockMilliseconds, _ body: () throws -> Value
  ) throws -> Value {
    let lock = try DirectoryLock(lockFile, waitMilliseconds: waitMilliseconds)
    defer { lock.unlock() }
    return try body()
  }
}

/// Whether the data directory is the one with which the service started. One that was deleted, or moved away, takes
/// everything with it that is written from then on.
package struct DirectoryIdentity: Sendable {
  private let path: String
  private let place: FileIdentity?

  package init(_ path: String) {
    self.path = path
    place = FileIdentity(path)
  }

  /// What happened to it, and what to do; nil while it is there.
  package var loss: String? {
    let now = FileIdentity(path)
    if now == place { return nil }
    return
      "the data directory \(path) was \(now == nil ? "deleted or moved" : "replaced") while the "
      + "service runs; notifications that must be stored are rejected: put it back, or restart the "
      + "service"
  }
}
