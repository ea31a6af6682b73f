import ApusModel

/// How far a job is: which devices are to be sent to next, which are on their way, and how the others went.
///
/// A value without I/O and clock; times are arguments.
struct JobProgress: Sendable {
  /// By place: the raw value of a `GroupOutcome`, 0 for a device without one.
  private(set) var outcomes: [UInt8]
  private(set) var counts: [GroupOutcome: Int] = [:]
  /// Devices that were sent to, and whose outcome is not known yet.
  private(set) var inFlight = 0
  private(set) var isCancelled = false
  /// Whether the service took nothing of what was sent last, because its store takes no writes.
  private(set) var isWaiting = false
  private var retryAtMilliseconds: Int64 = 0
  /// Places from here on were not sent.
  private var next = 0
  private var retries: [UInt32] = []
  /// Of outcomes that are not on disk yet.
  private var unwritten: [UInt8] = []
  private var writeAtMilliseconds: Int64 = 0
  private var isEndTaken = false
  private let window: Int

  private static let retryMilliseconds: Int64 = 1000

  /// - Parameters:
  ///   - outcomes: What is on disk.
  ///   - done: Places that have their notification all the same.
  ///   - window: Devices that may be on their way at a time.
  init(outcomes: [UInt8], done: [Int] = [], window: Int) {
    self.outcomes = outcomes
    self.window = window
    for outcome in outcomes.lazy.compactMap({ GroupOutcome(rawValue: $0) }) {
      counts[outcome, default: 0] += 1
    }
    recover(done)
  }

  /// Places whose devices have the notification, though the outcomes on disk do not say so.
  mutating func recover(_ done: [Int]) {
    for place in done where outcomes[place] == 0 { record(UInt32(place), .accepted) }
  }

  var doneCount: Int { counts.values.reduce(0, +) }

  // MARK: Sending

  struct Batch: Equatable {
    var places: [UInt32] = []
    /// Whether these were sent to before. A device may have the notification: its node can be lost before it says so.
    var areRetries = false
  }

  /// The places to send to now, which are then on their way; none where nothing is to be sent, or not yet.
  mutating func takeBatch(of limit: Int, nowMilliseconds: Int64) -> Batch {
    guard !isCancelled, inFlight + limit <= window || inFlight == 0,
      nowMilliseconds >= retryAtMilliseconds
    else { return Batch() }
    var batch = Batch(areRetries: !retries.isEmpty)
    if batch.areRetries {
      batch.places = retries.suffix(limit).reversed()
      retries.removeLast(batch.places.count)
    } else {
      while batch.places.count < limit, next < outcomes.count {
        if outcomes[next] == 0 { batch.places.append(UInt32(next)) }
        next += 1
      }
    }
    inFlight += batch.places.count
    return batch
  }

  /// When a batch is to be taken that cannot be taken now; nil if that does not depend on time.
  var retryMilliseconds: Int64? {
    isWaiting && !retries.isEmpty && !isCancelled ? retryAtMilliseconds : nil
  }

  mutating func finish(_ placed: [PlacedOutcome], nowMilliseconds: Int64) {
    inFlight -= placed.count
    var isRefused = false
    for entry in placed {
      if entry.outcome == .unavailable {
        isRefused = true
        if isCancelled { record(entry.place, .cancelled) } else { retries.append(entry.place) }
      } else {
        record(entry.place, entry.outcome)
      }
    }
    isWaiting = isRefused
    if isRefused { retryAtMilliseconds = nowMilliseconds + Self.retryMilliseconds }
  }

  /// Devices that were not sent to get nothing.
  mutating func cancel() {
    isCancelled = true
    for place in retries { record(place, .cancelled) }
    retries = []
    while next < outcomes.count {
      if outcomes[next] == 0 { record(UInt32(next), .cancelled) }
      next += 1
    }
  }

  private mutating func record(_ place: UInt32, _ outcome: GroupOutcome) {
    outcomes[Int(place)] = outcome.rawValue
    counts[outcome, default: 0] += 1
    JobFolder.append(PlacedOutcome(place: place, outcome: outcome), to: &unwritten)
  }

  // MARK: The disk

  /// Whether every outcome is on disk.
  var isWritten: Bool { unwritten.isEmpty }

  /// What is to be written now; empty for nothing.
  mutating func takeUnwritten(nowMilliseconds: Int64) -> [UInt8] {
    guard nowMilliseconds >= writeAtMilliseconds else { return [] }
    defer { unwritten = [] }
    return unwritten
  }

  /// True once, when each device has an outcome and all are on disk.
  mutating func takeEnd(nowMilliseconds: Int64) -> Bool {
    guard !isEndTaken, isWritten, inFlight == 0, doneCount == outcomes.count,
      nowMilliseconds >= writeAtMilliseconds
    else { return false }
    isEndTaken = true
    return true
  }

  /// The disk refused what was taken: `bytes`, or the end.
  mutating func giveBack(_ bytes: [UInt8], nowMilliseconds: Int64) {
    unwritten = bytes + unwritten
    isEndTaken = false
    writeAtMilliseconds = nowMilliseconds + Self.retryMilliseconds
  }

  /// When to write again what could not be written; nil if everything is on disk.
  var rewriteMilliseconds: Int64? {
    let isDue = !isWritten || doneCount == outcomes.count && inFlight == 0 && !isEndTaken
    return isDue ? writeAtMilliseconds : nil
  }
}
