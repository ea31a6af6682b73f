package import ApusModel

/// The errors of the store. Each message says what was wrong, where, and what to do.
package enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Another process, or another store in this process, has the directory open.
  case locked(path: String)
  /// The data were written by a later version of the program. Nothing was changed.
  case newerVersion(path: String, found: Int, supported: Int)
  /// The data were written by an earlier version of the program, in a format that is no longer supported. Nothing was
  /// changed.
  case olderVersion(path: String, found: Int, supported: Int)
  /// The directory is neither empty nor a store.
  case notAStore(path: String, detail: String)
  /// The path is not a directory, or is below something that is not.
  case notADirectory(path: String)
  /// The directory, or the parent of the one to be created, is missing.
  case missing(path: String)
  /// The directory was replaced by another one while the store was open.
  case replaced(path: String)
  /// The operating system refuses access.
  case noPermission(path: String, detail: String)
  /// The file system is read-only: it was mounted so, or a disk fault made the kernel stop writing to it.
  case readOnly(path: String, detail: String)
  /// No space is left for the data.
  case diskFull(path: String, detail: String)
  /// The data on disk are inconsistent.
  case corrupted(path: String, detail: String)
  /// Any other failure of the disk or of the operating system.
  case inputOutput(path: String, detail: String)
  /// The database failed or is not reached.
  case database(place: String, detail: String)
  /// The database cannot be used as it is set up.
  case unsuitableDatabase(place: String, detail: String)
  /// Another process uses the database.
  case inUse(place: String, detail: String)
  /// Another process took the database over, and this one writes nothing any more.
  case takenOver(place: String, holder: String)
  /// The database lacks groups that it had acknowledged: an old copy of it was made the server.
  case wentBack(place: String, expected: DatabaseProgress, found: DatabaseProgress)
  /// The store is recovering from a fault. Nothing was written; a retry may succeed.
  case unavailable
  /// More bytes wait to be written than `maximumPendingBytes` allows. Nothing was written.
  case overloaded(pendingBytes: Int, maximumPendingBytes: Int)
  /// The store was closed. Nothing was written.
  case closed

  /// Whether the store tried to write, so that it is unknown what it kept.
  package var isInDoubt: Bool {
    switch self {
    case .unavailable, .overloaded, .closed, .takenOver: false
    case .locked, .newerVersion, .olderVersion, .notAStore, .notADirectory, .missing,
      .replaced, .noPermission, .readOnly, .diskFull, .corrupted, .inputOutput, .database,
      .unsuitableDatabase, .inUse, .wentBack:
      true
    }
  }

  /// Whether the disk is full, read-only or failing. The data may be intact, and writing may work again later.
  package var isOfDisk: Bool {
    switch self {
    case .diskFull, .readOnly, .inputOutput: true
    default: false
    }
  }

  /// Whether a service may run with a store that returns this error: it rejects notifications to be stored, and
  /// accepts them once the disk accepts writes.
  package var letsServiceRun: Bool { self == .unavailable || isOfDisk }

  /// Whether a node of a cluster goes on standing by after this error of its start: the database is away, or another
  /// node has taken it over.
  package var letsNodeWait: Bool {
    switch self {
    case .database, .takenOver: true
    default: false
    }
  }

  package var description: String {
    switch self {
    case .locked(let path):
      "the store \(path) is open in another process: stop that process, or use another directory"
    case .newerVersion(let path, let found, let supported):
      "the store \(path) has format \(found), but this program supports formats up to \(supported): "
        + "start the version of the program that wrote it, or a later one; nothing was changed"
    case .olderVersion(let path, let found, let supported):
      "the store \(path) has format \(found), but this program reads only format \(supported): let the version of "
        + "the program that wrote it deliver its notifications, then move the directory away; nothing was changed"
    case .notAStore(let path, let detail):
      "\(path) is not a store (\(detail)): use an empty directory, or one that does not exist yet"
    case .notADirectory(let path):
      "\(path) is not a directory, or is below something that is not: use a directory"
    case .missing(let path):
      "the directory \(path) does not exist: create it, mount its file system, or use another"
    case .replaced(let path):
      "the directory \(path) was replaced while the store was open: put the original back, or "
        + "restart the service to use the new one"
    case .noPermission(let path, let detail):
      "no permission to use the store \(path) (\(detail)): give the directory and its files to the "
        + "user that runs the program"
    case .readOnly(let path, let detail):
      "the store \(path) is on a read-only file system (\(detail)): check the system's log for the "
        + "reason, and mount it writable"
    case .diskFull(let path, let detail):
      "no space left for the store \(path) (\(detail)): free space on its file system"
    case .corrupted(let path, let detail):
      "the store \(path) is damaged (\(detail)): keep a copy of the directory, then restore a "
        + "backup or start with an empty directory"
    case .inputOutput(let path, let detail):
      "reading or writing the store \(path) failed (\(detail)): check the disk and the system's log"
    case .database(let place, let detail):
      "the database \(place) failed (\(detail)): check its servers and the network to them"
    case .unsuitableDatabase(let place, let detail):
      "the database \(place) cannot be used: \(detail)"
    case .inUse(let place, let detail):
      "the database \(place) is in use (\(detail)): stop that process, or give this one another database"
    case .takenOver(let place, let holder):
      "the database \(place) was taken over by another process (\(holder)): this one writes nothing any more; stop one "
        + "of the two"
    case .wentBack(let place, let expected, let found):
      "the database \(place) lacks writes that it had acknowledged (it is at \(found), and was at \(expected)): an old "
        + "copy or a standby that was behind has become the server; bring the right one back and restart the service, "
        + "or accept the loss with `apus store --accept-loss`"
    case .unavailable:
      "the store is recovering from a fault and accepts no writes: try again later"
    case .overloaded(let pendingBytes, let maximumPendingBytes):
      "\(pendingBytes) bytes wait to be written, the limit is \(maximumPendingBytes): the disk is slower "
        + "than the load; try again later"
    case .closed:
      "the store is closed"
    }
  }
}
