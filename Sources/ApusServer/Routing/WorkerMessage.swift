import ApusCore
import ApusModel
import ApusStore

/// What crosses from one worker to another.
enum WorkerMessage: Sendable {
  /// A notification for a device that the receiver owns.
  case submit(Notification, Answer)
  case verdict(Verdict)
  /// A connection whose peer has proved who it is; a device's, for the worker that owns the device.
  /// Indirect, so that a notification's message stays small.
  indirect case adopt(HandedOverConnection)
  /// A stored notification that seems to be past its time.
  case expired(MailboxKey)
}
