package import ApusModel

/// The notifications of one binary connection that its sender will send again if upstream rejects one of them: from the
/// oldest that upstream has not answered, in their order.
///
/// Those for devices of this service count as well once an earlier one is unanswered: an error packet tells a sender
/// that everything behind it was discarded.
package struct RelayedFrames: Sendable {
  private struct Frame: Sendable {
    var entry: RememberedSequences.Entry
    /// The number of the frame on its connection, or of the next one that has a number.
    var sequence: UInt32
    /// Zero if it has none, as with command 0.
    var identifier: UInt32
    var isSilent: Bool
    /// Whether upstream is still to answer.
    var isOpen: Bool
    /// Whether it is known if the service has it.
    var isDecided: Bool
    /// The service could not take it.
    var isLost = false
  }

  /// What upstream rejected, and what of the sender's resends was accepted: up to the first that was not, since from
  /// there on everything is new.
  package struct Refused: Sendable {
    package var digest: RelayDigest
    package var identifier: UInt32
    /// Whether no packet can name it.
    package var isSilent: Bool
    package var following: [RememberedSequences.Entry]
  }

  private var frames: [Frame] = []
  private var head = 0

  package init() {}

  package var count: Int { frames.count - head }

  // MARK: Frames

  /// A notification goes upstream, as soon as the store has it: see ``decided(_:isAccepted:)``.
  package mutating func addRelayed(
    _ entry: RememberedSequences.Entry, sequence: UInt32, identifier: UInt32, isSilent: Bool
  ) {
    frames.append(
      Frame(
        entry: entry, sequence: sequence, identifier: identifier, isSilent: isSilent,
        isOpen: true, isDecided: false))
  }

  /// A notification that does not go upstream was accepted, or is not decided yet.
  ///
  /// - Parameter nextSequence: The number of the next frame: its own if it is not decided.
  package mutating func addOther(
    _ entry: RememberedSequences.Entry, nextSequence: UInt32, isDecided: Bool = true
  ) {
    guard count > 0 else { return }
    frames.append(
      Frame(
        entry: entry, sequence: nextSequence, identifier: 0, isSilent: true, isOpen: false,
        isDecided: isDecided))
  }

  // MARK: Decisions

  /// The service has the notification, or could not take it.
  package mutating func decided(_ sequence: UInt32, isAccepted: Bool) {
    guard let index = index(of: sequence, where: { !$0.isDecided }) else { return }
    frames[index].isDecided = true
    frames[index].isLost = !isAccepted
  }

  /// Whether everything behind an unanswered notification is decided. Before that it is not known what to remember: a
  /// notification that is remembered, and that the service does not have, would be swallowed when it is sent again.
  package func isDecided(after sequence: UInt32) -> Bool {
    guard let index = index(of: sequence, where: \.isOpen) else { return true }
    return frames[(index + 1)...].allSatisfy(\.isDecided)
  }

  // MARK: Answers

  /// Upstream has accepted the notification, or nothing will be said about it.
  package mutating func answered(_ sequence: UInt32) {
    guard let index = index(of: sequence, where: \.isOpen) else { return }
    frames[index].isOpen = false
    while head < frames.count, !frames[head].isOpen { head += 1 }
    if head == frames.count {
      frames.removeAll(keepingCapacity: head <= 1024)
      head = 0
    } else if head >= 1024, head > frames.count / 2 {
      frames.removeFirst(head)
      head = 0
    }
  }

  /// Upstream has rejected the notification; nil if it is not known, or was answered.
  package func refused(_ sequence: UInt32) -> Refused? {
    guard let index = index(of: sequence, where: \.isOpen) else { return nil }
    let frame = frames[index]
    return Refused(
      digest: frame.entry.digest, identifier: frame.identifier, isSilent: frame.isSilent,
      following: frames[(index + 1)...].prefix { !$0.isLost }.map(\.entry))
  }

  /// Where the notification with that number is: others may have it, too.
  private func index(of sequence: UInt32, where isMeant: (Frame) -> Bool) -> Int? {
    guard head < frames.count else { return nil }
    // Numbers are modulo 2^32.
    let first = frames[head].sequence
    let distance = sequence &- first
    var (low, high) = (head, frames.count)
    while low < high {
      let middle = (low + high) / 2
      if frames[middle].sequence &- first < distance { low = middle + 1 } else { high = middle }
    }
    while low < frames.count, frames[low].sequence == sequence {
      if isMeant(frames[low]) { return low }
      low += 1
    }
    return nil
  }
}
