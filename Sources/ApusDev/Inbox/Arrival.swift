import ApusModel
import ApusWire

/// A notification that a virtual device received, and what it did with it.
struct Arrival: Sendable {
  /// As the service knows the notification: for a broadcast its `apns-unique-id`.
  var id: NotificationID
  var device: String
  /// Unix milliseconds of the service's clock.
  var milliseconds: Int64
  /// Whether it was delivered from storage.
  var isFromStorage: Bool
  /// What is shown; nil for nothing.
  var rendering: Rendering?
  /// Nil unless it was for a Live Activity.
  var activity: ActivityOutcome?
}

extension Arrival {
  /// Nil if the notification has no id, so that it belongs to no push of the inbox.
  init?(
    _ notification: DeviceLink.ReceivedNotification, on device: String, _ rendering: Rendering?,
    _ activity: ActivityOutcome? = nil, atMilliseconds milliseconds: Int64
  ) {
    guard let id = notification.id else { return nil }
    self.init(
      id: id, device: device, milliseconds: milliseconds,
      isFromStorage: notification.isFromStorage, rendering: rendering, activity: activity)
  }

  /// As a recipient of a broadcast.
  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("device", device)
    writer.integer("atMilliseconds", milliseconds)
    writer.key("fromStorage")
    writer.bool(isFromStorage)
    writer.key("activity")
    if let activity { activity.write(to: &writer) } else { writer.null() }
    writer.endObject()
  }
}
