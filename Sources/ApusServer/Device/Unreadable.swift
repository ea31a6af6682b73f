import ApusLog
import ApusLoop
import ApusModel

/// What of a device the store could not give.
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

extension Worker {
  /// Tells the operator so; what happens then is the caller's business.
  func logUnreadable(_ what: Unreadable, of device: DeviceID, _ error: some Error) {
    log.limited(.error, what.kind, atMilliseconds: loop.nowMilliseconds) {
      [.text("device", device.text), .text("reason", "\(error)")]
    }
  }
}
