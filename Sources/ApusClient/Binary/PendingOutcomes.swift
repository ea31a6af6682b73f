import ApusModel
import Synchronization

/// Maps tickets to those who wait for outcomes. A ticket consists of an index into `places` (24 bits) and a number that
/// distinguishes the holder's pushes (40 bits).
final class PendingOutcomes: Sendable {
  enum Holder: Sendable {
    case nobody
    /// One push.
    case single(CheckedContinuation<SendOutcome, Never>)
    /// The pushes of a bulk send, by number.
    case bulk(BulkSend)
  }

  private struct Entry {
    var holder = Holder.nobody
    /// Counts the holders: tickets of earlier ones are invalid.
    var generation: UInt64 = 0
  }

  private struct State {
    var places: [Entry] = []
    var free: [Int] = []
  }

  static let numberBits: UInt64 = 40
  static let numberMask: UInt64 = (1 << numberBits) - 1
  private let state = Mutex(State())

  /// The ticket of a single push, or the first one of a bulk send; nil if 16 million holders wait.
  func open(_ holder: Holder) -> UInt64? {
    state.withLock { state -> UInt64? in
      let index: Int
      if let free = state.free.popLast() {
        index = free
      } else {
        guard state.places.count < 1 << (64 - Self.numberBits) - 1 else { return nil }
        index = state.places.count
        state.places.append(Entry())
      }
      state.places[index].holder = holder
      state.places[index].generation += 1
      let slot = UInt64(index) << Self.numberBits
      guard case .single = holder else { return slot }
      return slot | state.places[index].generation & Self.numberMask
    }
  }

  /// Frees the place of a ticket.
  private static func close(_ index: Int, _ state: inout State) {
    state.places[index].holder = .nobody
    state.free.append(index)
  }

  /// The bulk send has ended, and all its pushes have their outcome.
  func closeBulk(_ ticket: UInt64) {
    let index = Int(ticket >> Self.numberBits)
    state.withLock { Self.close(index, &$0) }
  }

  /// Delivers each outcome. Consecutive ones of the same bulk send are delivered together.
  func deliver(_ settled: [SentQueue.Settled], outcome: (SentQueue.Settled) -> SendOutcome) {
    var index = 0
    while index < settled.count {
      guard !settled[index].settlement.isLate else {
        index += 1
        continue
      }
      let slot = settled[index].ticket >> Self.numberBits
      switch take(settled[index].ticket) {
      case .nobody: index += 1
      case .single(let continuation):
        continuation.resume(returning: outcome(settled[index]))
        index += 1
      case .bulk(let bulk):
        var end = index
        while end < settled.count, settled[end].ticket >> Self.numberBits == slot,
          !settled[end].settlement.isLate
        { end += 1 }
        bulk.deliver(settled[index..<end], outcome: outcome)
        index = end
      }
    }
  }

  /// The holder of a ticket. A single one is removed, since it now gets its outcome.
  private func take(_ ticket: UInt64) -> Holder {
    state.withLock { state in
      let index = Int(ticket >> Self.numberBits)
      let place = state.places[index]
      guard case .single = place.holder else { return place.holder }
      guard place.generation & Self.numberMask == ticket & Self.numberMask else { return .nobody }
      Self.close(index, &state)
      return place.holder
    }
  }

  /// Delivers an outcome, if the ticket has none yet.
  func deliver(
    _ ticket: UInt64, _ outcome: SendOutcome, id: NotificationID = NotificationID(high: 0, low: 0)
  ) {
    deliver([SentQueue.Settled(ticket: ticket, id: id, settlement: .accepted)]) { _ in outcome }
  }
}
