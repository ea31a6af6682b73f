import ApusModel

/// The outcome of a frame so far.
enum FrameOutcome: Sendable, Hashable {
  case undecided
  /// Not accepted yet, because its device has to make progress first.
  case heldBack
  case accepted
  case failed(BinaryStatus)
}

/// A frame from its arrival until it is settled: it and everything before it are decided.
struct PendingFrame: Sendable, Hashable {
  /// Zero if the frame has none, as in an error packet.
  var identifier: UInt32
  /// Whether nothing may be reported about it: command 0 has no identifier.
  var isSilent: Bool
  /// Since when its decision is due.
  var startedSeconds: Int64
  var outcome = FrameOutcome.undecided
}

/// The unsettled frames of one connection, in order of arrival.
///
/// A ring that doubles when full. Frames are numbered from 0, modulo 2^32; so few are pending at a time that a number
/// is never ambiguous.
struct FrameRing: Sendable {
  private var frames: [PendingFrame] = []
  private var head = 0
  private var headSequence: UInt32 = 0
  private(set) var count = 0

  /// The oldest.
  var first: PendingFrame? { count > 0 ? frames[head] : nil }

  /// The number of the next frame.
  var nextSequence: UInt32 { headSequence &+ UInt32(count) }

  /// Appends a frame and returns its number.
  mutating func append(_ frame: PendingFrame) -> UInt32 {
    if count == frames.count { grow() }
    frames[(head + count) & (frames.count - 1)] = frame
    count += 1
    return headSequence &+ UInt32(count - 1)
  }

  /// Records the outcome of a frame. The first one counts: a frame that was given up may still be decided later.
  mutating func decide(_ sequence: UInt32, _ outcome: FrameOutcome) {
    guard let index = openIndex(sequence) else { return }
    frames[index].outcome = outcome
  }

  /// Records that a frame has failed although it was accepted; false if it is not in the ring any more.
  mutating func fail(_ sequence: UInt32, _ status: BinaryStatus) -> Bool {
    let distance = sequence &- headSequence
    guard distance < UInt32(count) else { return false }
    frames[(head + Int(distance)) & (frames.count - 1)].outcome = .failed(status)
    return true
  }

  /// Records that a frame is held back.
  mutating func hold(_ sequence: UInt32) {
    guard let index = openIndex(sequence) else { return }
    frames[index].outcome = .heldBack
  }

  /// Records that a frame is no longer held back.
  mutating func resume(_ sequence: UInt32, nowSeconds: Int64) {
    guard let index = openIndex(sequence) else { return }
    frames[index].outcome = .undecided
    frames[index].startedSeconds = nowSeconds
  }

  /// The index of a frame that has no decision yet.
  private func openIndex(_ sequence: UInt32) -> Int? {
    let distance = sequence &- headSequence
    guard distance < UInt32(count) else { return nil }
    let index = (head + Int(distance)) & (frames.count - 1)
    switch frames[index].outcome {
    case .undecided, .heldBack: return index
    case .accepted, .failed: return nil
    }
  }

  mutating func decideFirst(_ outcome: FrameOutcome) { decide(headSequence, outcome) }

  mutating func removeFirst() {
    head = (head + 1) & (frames.count - 1)
    headSequence &+= 1
    count -= 1
  }

  mutating func removeAll() {
    frames = []
    head = 0
    headSequence &+= UInt32(count)
    count = 0
  }

  private mutating func grow() {
    let size = max(16, 2 * frames.count)
    var larger: [PendingFrame] = []
    larger.reserveCapacity(size)
    for index in 0..<count { larger.append(frames[(head + index) & (frames.count - 1)]) }
    let filler = PendingFrame(identifier: 0, isSilent: true, startedSeconds: 0)
    larger.append(contentsOf: repeatElement(filler, count: size - count))
    frames = larger
    head = 0
  }
}
