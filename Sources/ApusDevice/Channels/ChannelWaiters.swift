import ApusModel
import ApusWire

/// Identifies a change of subscriptions. Used only on the loop.
final class ChannelTicket: @unchecked Sendable {
  var isCancelled = false
}

/// The callers that wait until the service has confirmed their changes of subscriptions. Confined to the loop.
///
/// One change is under way at a time, so that they are applied in order; the connection repeats it until it is
/// confirmed.
struct ChannelWaiters {
  typealias Continuation = CheckedContinuation<[ChannelSubscription], any Error>

  private struct Waiter {
    var ticket: ChannelTicket
    var change: CourierSubscriptions
    /// Nil once the caller has cancelled: the change may have been applied.
    var continuation: Continuation?
  }

  private var waiters: [Waiter] = []
  /// The index of the request for the first of them.
  private var index: UInt32?

  /// False if too many wait.
  mutating func add(
    _ change: CourierSubscriptions, _ ticket: ChannelTicket, _ continuation: Continuation
  ) -> Bool {
    guard waiters.count < Limits.courierFilterTopics else { return false }
    waiters.append(Waiter(ticket: ticket, change: change, continuation: continuation))
    return true
  }

  /// Requests the next change by `send`, unless one is under way. `send` returns the index of the request; nil if it
  /// cannot be made.
  mutating func sendNext(_ send: (CourierSubscriptions) -> UInt32?) {
    guard index == nil, let first = waiters.first else { return }
    index = send(first.change)
  }

  mutating func confirm(_ confirmation: CourierChannelConfirmation) {
    guard confirmation.index == index, !waiters.isEmpty else { return }
    index = nil
    let continuation = waiters.removeFirst().continuation
    if let error = confirmation.error {
      continuation?.resume(throwing: error)
    } else {
      continuation?.resume(returning: confirmation.subscriptions?.list ?? [])
    }
  }

  mutating func cancel(_ ticket: ChannelTicket) {
    guard let place = waiters.firstIndex(where: { $0.ticket === ticket }) else { return }
    let continuation = waiters[place].continuation
    if place == 0, index != nil {
      waiters[place].continuation = nil
    } else {
      waiters.remove(at: place)
    }
    continuation?.resume(throwing: CancellationError())
  }

  /// Ends all waits. The request that is under way stays with the connection.
  mutating func fail(_ error: DeviceError) {
    let failed = waiters
    waiters = []
    index = nil
    for waiter in failed { waiter.continuation?.resume(throwing: error) }
  }
}
