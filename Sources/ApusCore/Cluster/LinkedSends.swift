package import ApusModel

/// What a node has admitted for devices that another node decides about: each notification from its admission to its
/// verdict.
///
/// ```
/// submit --> waiting --next--> sent --decided--> gone
///               ^                |
///               '--linkEnded-----'
/// ```
///
/// Notifications are sent in the order of their admission, and again in that order after a link has ended: a device may
/// see one twice, with the same id, and never none. What was sent before is marked (`Notification.mayBeRepeated`), so
/// that the device recognises it. What could not be sent within `Limits.linkWaitMilliseconds` is given up. What was
/// sent stays until the other node has decided, or the link has ended.
package struct LinkedSends {
  private struct Entry {
    let notification: Notification
    let answer: Answer
    /// In the order of admission.
    let serial: UInt64
    let submittedMilliseconds: UInt64
    var isSent = false
  }

  /// By their numbers on the link.
  private var entries: [Entry?] = []
  private var free: [UInt32] = []
  private var waiting = FIFO<UInt32>()
  private var serial: UInt64 = 0

  package init() {}

  /// Notifications without a verdict.
  package var count: Int { entries.count - free.count }
  /// Those of them that are not sent.
  package var waitingCount: Int { waiting.count }

  package mutating func submit(
    _ notification: consuming Notification, _ answer: Answer, nowMilliseconds: UInt64
  ) {
    if free.isEmpty {
      free.append(UInt32(entries.count))
      entries.append(nil)
    }
    let number = free.removeLast()
    serial += 1
    entries[Int(number)] = Entry(
      notification: notification, answer: answer, serial: serial,
      submittedMilliseconds: nowMilliseconds)
    waiting.append(number)
  }

  /// Takes the next notification to send, and the number under which the verdict is to come; nil if none waits.
  package mutating func next() -> (number: UInt32, notification: Notification)? {
    guard let number = waiting.popFirst(), let entry = entries[Int(number)] else { return nil }
    entries[Int(number)]?.isSent = true
    return (number, entry.notification)
  }

  /// Who waits for the verdict of a notification that was sent; nil for a number of none.
  package func answer(of number: UInt32) -> Answer? {
    sent(number)?.answer
  }

  private func sent(_ number: UInt32) -> Entry? {
    guard Int(number) < entries.count, let entry = entries[Int(number)], entry.isSent else {
      return nil
    }
    return entry
  }

  /// The other node has decided. Nil for a number that is not that of a notification which was sent.
  package mutating func decided(
    _ number: UInt32
  ) -> (answer: Answer, notification: Notification)? {
    sent(number).map { remove(number, $0) }
  }

  private mutating func remove(
    _ number: UInt32, _ entry: Entry
  ) -> (answer: Answer, notification: Notification) {
    entries[Int(number)] = nil
    free.append(number)
    return (entry.answer, entry.notification)
  }

  /// The link has ended: what it carried without a verdict waits again.
  package mutating func linkEnded() {
    guard entries.contains(where: { $0?.isSent == true }) else { return }
    let numbers = entries.indices.filter { entries[$0] != nil }
    waiting = FIFO()
    for index in numbers.sorted(by: { serial(of: $0) < serial(of: $1) }) {
      if let entry = entries[index], entry.isSent { entry.notification.mayBeRepeated = true }
      entries[index]?.isSent = false
      waiting.append(UInt32(index))
    }
  }

  private func serial(of index: Int) -> UInt64 { entries[index]?.serial ?? 0 }

  /// Takes a notification that has waited for too long; nil if none has. It is not sent any more.
  package mutating func nextOverdue(
    nowMilliseconds: UInt64
  ) -> (answer: Answer, notification: Notification)? {
    guard let number = waiting.first, let entry = entries[Int(number)],
      nowMilliseconds >= entry.submittedMilliseconds + Limits.linkWaitMilliseconds
    else { return nil }
    waiting.popFirst()
    return remove(number, entry)
  }
}
