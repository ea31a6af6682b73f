import CDiskFaults
import Glibc

/// A disk fault in this process only: calls for files below one folder fail until it ends.
///
/// Needs no privileges. It affects everything that uses files through the C library: the store's engine, and the
/// service's own code.
package final class DiskFault {
  package enum Kind: Sendable, CaseIterable {
    /// The file system is read-only (EROFS).
    case readOnly
    /// Writes and changes of a directory fail (EIO).
    case writesFail
    /// Written data stays in the system's memory and cannot reach the disk (EIO).
    case syncsFail
    /// What is in a file reaches the disk, and the name that leads to it does not (EIO).
    case folderSyncsFail
    /// No file can be opened, because the process has reached its limit (EMFILE).
    case noDescriptors
    /// Nothing can be read or written (EIO).
    case gone

    fileprivate var calls: disk_fault_calls.RawValue {
      let calls: [disk_fault_calls] =
        switch self {
        case .readOnly, .writesFail:
          [DISK_FAULT_WRITE, DISK_FAULT_SYNC, DISK_FAULT_SYNC_FOLDER, DISK_FAULT_CHANGE]
        case .syncsFail: [DISK_FAULT_SYNC, DISK_FAULT_SYNC_FOLDER]
        case .folderSyncsFail: [DISK_FAULT_SYNC_FOLDER]
        case .noDescriptors: [DISK_FAULT_OPEN]
        case .gone:
          [
            DISK_FAULT_WRITE, DISK_FAULT_SYNC, DISK_FAULT_SYNC_FOLDER, DISK_FAULT_CHANGE,
            DISK_FAULT_OPEN, DISK_FAULT_READ,
          ]
        }
      return calls.reduce(0) { $0 | $1.rawValue }
    }

    fileprivate var error: Int32 {
      switch self {
      case .readOnly: EROFS
      case .writesFail, .syncsFail, .folderSyncsFail, .gone: EIO
      case .noDescriptors: EMFILE
      }
    }

    /// The system's message.
    package var text: String { String(cString: strerror(error)) }
  }

  private var number: Int32?

  /// Starts immediately.
  ///
  /// - Parameters:
  ///   - folder: An existing folder.
  ///   - passes: Calls that succeed before the first one that fails.
  package init(_ kind: Kind, below folder: String, after passes: Int = 0) {
    let number = disk_fault_begin(folder, kind.calls, kind.error, UInt(passes))
    precondition(number >= 0, "no fault can begin below \(folder)")
    self.number = number
  }

  deinit { end() }

  /// Ends the fault. Returns the number of failed calls; 0 if it had already ended.
  @discardableResult
  package func end() -> Int {
    guard let number else { return 0 }
    self.number = nil
    return Int(disk_fault_end(number))
  }
}
