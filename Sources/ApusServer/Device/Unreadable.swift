import ApusModel

/// What of a device the store could not give.
enum Unreadable {
  case record
  case mailbox
  case notification

  fileprivate var event: StaticString {
    switch self {
    case .record: "device record unreadable"
    case .mailbox: "mailbox unreadable"
    case .notification: "stored notification unreadable"
    }
  }
}

extension Worker {
  /// Tells the operator so; what happens then is the caller's business.
  func logUnreadable(_ what: Unreadable, of device: DeviceID, _ error: some Error) {
    log(.error, what.event, .text("device", device.text), .text("reason", "\(error)"))
  }
}
