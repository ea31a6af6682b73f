import ApusCommand
import ApusModel
import ApusWire
import Glibc
import Synchronization

/// The file of `--results`: the results of earlier runs and of this one.
///
/// Append-only. The numbers of started rows are synced (fdatasync) before one of these rows is sent; outcomes are
/// written at once and synced with the next started rows, and at the end. So a crash of the program loses nothing, and
/// a crash of the machine only makes a few more rows doubtful.
@safe final class ResultsFile: Sendable {
  let journal: RunJournal
  /// The id from which the ids of the notifications are counted.
  let run: NotificationID
  private let path: String
  /// Negative if there is no file.
  private let descriptor: Int32
  private let lock = Mutex(())

  init(_ invocation: Invocation, list: RecipientList) throws(CommandFailure) {
    let isResumed = invocation.isOn(SendOptions.resume)
    guard let path = invocation[SendOptions.results] else {
      for (flag, isGiven) in [
        ("--resume", isResumed), ("--retry-doubtful", invocation.isOn(SendOptions.retryDoubtful)),
      ] where isGiven {
        throw CommandFailure(
          .usage, "\(flag) needs the results of the earlier run", remedy: "Give --results FILE.")
      }
      (journal, run, self.path, descriptor) = (RunJournal(), Self.randomID(), "", -1)
      return
    }
    self.path = path
    descriptor = unsafe open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Self.failure("open", path) }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      close(descriptor)
      throw CommandFailure(
        .failed, "another run is writing to \(path)", remedy: "Wait until it ends.")
    }
    var journal = RunJournal()
    let isEmpty: Bool
    do throws(CommandFailure) {
      isEmpty = try Self.read(descriptor, path, into: &journal)
      guard isEmpty || isResumed else {
        throw CommandFailure(
          .usage, "\(path) already contains results",
          remedy: "Continue that run with --resume, or give another file.")
      }
    } catch {
      close(descriptor)
      throw error
    }
    self.journal = journal
    run = journal.run ?? Self.randomID()
    // Terminates a line that a crash may have cut off.
    if !isEmpty, let failure = write(text: "\n") { throw failure }
    if journal.run == nil {
      if let failure = write(RunJournal.runLine(run, list: list.name)) { throw failure }
      Self.syncDirectory(of: path)
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  private static func randomID() -> NotificationID {
    NotificationID(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
  }

  /// Whether the file was empty.
  private static func read(
    _ descriptor: Int32, _ path: String, into journal: inout RunJournal
  ) throws(CommandFailure) -> Bool {
    var rest: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 20)
    var isEmpty = true
    while true {
      let count = unsafe piece.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      }
      guard count >= 0 else { throw failure("read", path) }
      // Bytes after the last line end belong to a cut-off line.
      guard count > 0 else { return isEmpty }
      isEmpty = false
      rest += piece[..<count]
      var start = 0
      while let end = rest[start...].firstIndex(of: 0x0a) {
        do throws(RecordProblem) {
          try journal.read(rest.span.extracting(start..<end))
        } catch {
          throw CommandFailure(.failed, "\(path): \(error)", remedy: "Give another file.")
        }
        start = end + 1
      }
      rest.removeFirst(start)
    }
  }

  // MARK: Writing

  func write(_ line: JSONValue) -> CommandFailure? { write(text: line.text + "\n") }

  private func write(text: String) -> CommandFailure? {
    guard descriptor >= 0 else { return nil }
    return lock.withLock { _ in
      var rest = Array(text.utf8)[...]
      while !rest.isEmpty {
        let count = unsafe rest.withUnsafeBytes { buffer in
          unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
        }
        guard count > 0 || errno == EINTR else { return Self.failure("write", path) }
        rest = rest.dropFirst(max(count, 0))
      }
      return nil
    }
  }

  /// Syncs everything written so far to the disk.
  func sync() -> CommandFailure? {
    guard descriptor >= 0, fdatasync(descriptor) != 0 else { return nil }
    return Self.failure("sync", path)
  }

  func finish() -> CommandFailure? { sync() }

  private static func syncDirectory(of path: String) {
    let slash = path.lastIndex(of: "/")
    let directory = slash.map { String(path[...$0]) } ?? "."
    let descriptor = unsafe open(directory, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    fsync(descriptor)
    close(descriptor)
  }

  private static func failure(_ operation: String, _ path: String) -> CommandFailure {
    CommandFailure(
      .failed, "cannot \(operation) \(path): \(unsafe String(cString: strerror(errno)))")
  }
}
