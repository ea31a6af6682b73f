/// What can go wrong with the store. Each message says what was wrong, where, and what to do.
package enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Another process, or another store in this one, has the directory open.
  case locked(path: String)
  /// The data were written by a later version of the program. Nothing was touched.
  case newerVersion(path: String, found: Int, supported: Int)
  /// The data were written by an earlier version of the program, in a format that is read no more. Nothing was touched.
  case olderVersion(path: String, found: Int, supported: Int)
  /// The directory holds something else: it is neither empty nor a store.
  case notAStore(path: String, detail: String)
  /// The path names something that is not a directory, or lies below something that is not.
  case notADirectory(path: String)
  /// The directory, or the one that it is to be created in, is missing.
  case missing(path: String)
  /// The operating system refuses access.
  case noPermission(path: String, detail: String)
  /// The file system can only be read: it is mounted so, or a fault of the disk made the kernel stop writing to it.
  case readOnly(path: String, detail: String)
  /// No space is left for the data.
  case diskFull(path: String, detail: String)
  /// What is on disk contradicts itself.
  case corrupted(path: String, detail: String)
  /// Any other failure of the disk or of the operating system.
  case inputOutput(path: String, detail: String)
  /// The store recovers from a fault. Nothing was written; a later attempt may succeed.
  case unavailable
  /// More is waiting to be written than `maximumPendingBytes` allows. Nothing was written.
  case overloaded(pendingBytes: Int, maximumPendingBytes: Int)
  /// The store was closed. Nothing was written.
  case closed

  /// Whether the store has tried to write, so that nobody can tell what it kept.
  package var isInDoubt: Bool {
    switch self {
    case .unavailable, .overloaded, .closed: false
    case .locked, .newerVersion, .olderVersion, .notAStore, .notADirectory, .missing,
      .noPermission, .readOnly, .diskFull, .corrupted, .inputOutput:
      true
    }
  }

  /// Whether the disk takes no writes, or fails. The data themselves may be whole, and writing may work again later.
  package var isOfDisk: Bool {
    switch self {
    case .diskFull, .readOnly, .inputOutput: true
    default: false
    }
  }

  /// Whether a service may run with a store that gives this error: it refuses what is to be stored, and accepts it once
  /// the disk takes it.
  package var letsServiceRun: Bool { self == .unavailable || isOfDisk }

  package var description: String {
    switch self {
    case .locked(let path):
      "the store \(path) is open in another process: stop that process, or name another directory"
    case .newerVersion(let path, let found, let supported):
      "the store \(path) has format \(found), and this program knows formats up to \(supported): "
        + "start the version of the program that wrote it, or a later one; nothing was touched"
    case .olderVersion(let path, let found, let supported):
      "the store \(path) has format \(found), and this program reads format \(supported) alone: let the version of "
        + "the program that wrote it deliver what is in it, then move the directory away; nothing was touched"
    case .notAStore(let path, let detail):
      "\(path) is not a store (\(detail)): name an empty directory, or one that does not exist yet"
    case .notADirectory(let path):
      "\(path) is not a directory, or lies below something that is not: name a directory"
    case .missing(let path):
      "the directory \(path) does not exist: create it, mount what holds it, or name another"
    case .noPermission(let path, let detail):
      "no permission to use the store \(path) (\(detail)): give the directory and its files to the "
        + "user that runs the program"
    case .readOnly(let path, let detail):
      "the store \(path) is on a file system that can only be read (\(detail)): look into the system's log for the "
        + "reason, and mount it for writing"
    case .diskFull(let path, let detail):
      "no space left for the store \(path) (\(detail)): free space on its file system"
    case .corrupted(let path, let detail):
      "the store \(path) is damaged (\(detail)): keep a copy of the directory, then restore a "
        + "backup or start with an empty directory"
    case .inputOutput(let path, let detail):
      "reading or writing the store \(path) failed (\(detail)): check the disk and the system's log"
    case .unavailable:
      "the store recovers from a fault and takes nothing for now: try again later"
    case .overloaded(let pendingBytes, let maximumPendingBytes):
      "\(pendingBytes) bytes wait to be written and \(maximumPendingBytes) may: the disk is slower "
        + "than the load; try again later"
    case .closed:
      "the store is closed"
    }
  }
}
