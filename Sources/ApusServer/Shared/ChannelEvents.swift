import ApusModel
import Synchronization

/// What workers, and copies of the register, must know of channels.
enum ChannelEvent: Sendable {
  case created(Channel)
  case published(Broadcast)
  case deleted(number: UInt32, ChannelID)
}

/// Who learns what happens to channels.
final class ChannelEvents: Sendable {
  private let receivers = Mutex<[(id: Int, receive: @Sendable (ChannelEvent) -> Void)]>([])

  /// Has somebody learn what happens from now on, on any thread. Returns what ends that.
  @discardableResult
  func add(receiver: @escaping @Sendable (ChannelEvent) -> Void) -> Int {
    receivers.withLock { receivers in
      let id = (receivers.last?.id ?? 0) + 1
      receivers.append((id, receiver))
      return id
    }
  }

  func remove(receiver id: Int) { receivers.withLock { $0.removeAll { $0.id == id } } }

  func tell(_ event: ChannelEvent) {
    for receiver in receivers.withLock({ $0 }) { receiver.receive(event) }
  }
}

/// Where a copy of the register learns what another node's register knows.
protocol ChannelSource: AnyObject, Sendable {
  /// Calls `done` on any thread once the copy has all that the register had at the time of the call; with false if that
  /// could not be found out in time.
  func bringUpToDate(_ done: @escaping @Sendable (Bool) -> Void)
}
