import CDiskFaults
import Glibc

/// A fault of the disk, in this process alone: calls about files below one folder fail until it ends.
///
/// Needs no privilege. What opens, reads and writes files through the C library is met by it: the store's engine, and
/// the service's own code.
package final class DiskFault {
  package enum Kind: Sendable, CaseIterable {
    /// The file system can only be read any more (EROFS).
    case readOnly
    /// Writes and whatever changes a directory fail (EIO).
    case writesFail
    /// What was written is in the system's memory, and cannot be brought to the disk (EIO).
    case syncsFail
    /// No file can be opened, as the process has as many as it may (EMFILE).
    case noDescriptors
    /// Nothing can be read or written (EIO).
    case gone

    fileprivate var calls: disk_fault_calls.RawValue {
      let calls: [disk_fault_calls] =
        switch self {
        case .readOnly, .writesFail: [DISK_FAULT_WRITE, DISK_FAULT_SYNC, DISK_FAULT_CHANGE]
        case .syncsFail: [DISK_FAULT_SYNC]
        case .noDescriptors: [DISK_FAULT_OPEN]
        case .gone:
          [
            DISK_FAULT_WRITE, DISK_FAULT_SYNC, DISK_FAULT_CHANGE, DISK_FAULT_OPEN, DISK_FAULT_READ,
          ]
        }
      return calls.reduce(0) { $0 | $1.rawValue }
    }

    fileprivate var error: Int32 {
      switch self {
      case .readOnly: EROFS
      case .writesFail, .syncsFail, .gone: EIO
      case .noDescriptors: EMFILE
      }
    }

    /// What the system calls it.
    package var text: String { String(cString: strerror(error)) }
  }

  private var number: Int32?

  /// Begins at once.
  ///
  /// - Parameter folder: one that exists.
  package init(_ kind: Kind, below folder: String) {
    let number = disk_fault_begin(folder, kind.calls, kind.error)
    precondition(number >= 0, "no fault can begin below \(folder)")
    self.number = number
  }

  deinit { end() }

  /// Everything works again. Returns how many calls have failed; 0 where it had ended already.
  @discardableResult
  package func end() -> Int {
    guard let number else { return 0 }
    self.number = nil
    return Int(disk_fault_end(number))
  }
}
