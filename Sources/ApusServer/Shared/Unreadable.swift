import ApusLog
import ApusLoop
import ApusModel

/// What could not be read from the store for a device.
enum Unreadable {
  case record
  case mailbox
  case notification

  fileprivate var kind: Log.Kind {
    switch self {
    case .record: .deviceRecordUnreadable
    case .mailbox: .mailboxUnreadable
    case .notification: .notificationUnreadable
    }
  }
}

extension WorkerContext {
  /// Logs the error. The caller decides how to continue.
  func logUnreadable(_ what: Unreadable, of device: DeviceID, _ error: some Error) {
    log.limited(.error, what.kind, atMilliseconds: loop.nowMilliseconds) {
      fields(of: device) + [.text("reason", "\(error)")]
    }
  }
}
