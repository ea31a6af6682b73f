import ApusLoop
import Glibc

/// The record of notifications on disk. Only one agent uses it at a time.
///
/// Commands' processes inherit the lock until they become the command: an agent that follows a killed one waits until
/// every process of that has either recorded its start or ended.
final class RecordFile {
  private(set) var record: DeliveryRecord
  private let path: String
  private let lock: Int32
  /// Opened with O_APPEND.
  private(set) var descriptor: Int32

  /// - Throws: If another agent uses the folder, or a file cannot be read or written.
  init(directory: String, capacity: Int) throws(AgentFault) {
    try StateFiles.makeDirectory(directory, mode: 0o700)
    lock = try Self.lock("\(directory)/lock")
    path = "\(directory)/notifications"
    record = DeliveryRecord(capacity: capacity)
    for line in (try StateFiles.readText(path) ?? "").split(separator: "\n") { record.apply(line) }
    try StateFiles.replace(path, record.compacted())
    descriptor = try Self.open(path)
  }

  deinit {
    close(descriptor)
    close(lock)
  }

  private static func lock(_ path: String) throws(AgentFault) -> Int32 {
    let descriptor = unsafe Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600 as mode_t)
    guard descriptor >= 0 else { throw StateFiles.failure("create", path) }
    // Five seconds: a process on its way to a command needs as long as the disk takes to sync.
    for _ in 0..<100 {
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
      usleep(50_000)
    }
    close(descriptor)
    throw AgentFault(
      "another agent uses \(path)",
      remedy: "Stop it, or give this one a `state` folder of its own.")
  }

  private static func open(_ path: String) throws(AgentFault) -> Int32 {
    let descriptor = unsafe Glibc.open(
      path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600 as mode_t)
    guard descriptor >= 0 else { throw StateFiles.failure("open", path) }
    return descriptor
  }

  subscript(key: String) -> DeliveryRecord.Entry? { record[key] }

  /// Takes a line that another process has written.
  func learn(_ line: String) { record.apply(line.dropLast()) }

  /// Writes a line; durably, if the caller is about to rely on it.
  ///
  /// - Throws: If it is not on disk. Nothing may be acknowledged then.
  func write(_ line: String, durably: Bool) throws(AgentFault) {
    guard StateFiles.append(Array(line.utf8), to: descriptor),
      !durably || fdatasync(descriptor) == 0
    else { throw StateFiles.failure("write", path) }
    record.apply(line.dropLast())
  }

  /// Writes the file anew once it is long. Not while a process may still write to it.
  func compactIfLong() throws(AgentFault) {
    guard record.wantsCompaction else { return }
    try StateFiles.replace(path, record.compacted())
    let new = try Self.open(path)
    close(descriptor)
    descriptor = new
  }
}
