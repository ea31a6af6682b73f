package import ApusDirectory
package import ApusLog
import ApusLoop
package import ApusModel
package import ApusStore
import ApusThread

/// Sends pushes to many devices: accepts jobs durably, sends them in batches on a thread of its own, and goes on with
/// unfinished ones after a restart.
package final class JobService: Sendable {
  /// A job, and how far it is.
  package struct Facts: Sendable {
    package var job: PushJob
    package var counts: [GroupOutcome: Int]
    /// Unix milliseconds; nil while it runs.
    package var endedMilliseconds: Int64?
    /// Whether the service takes no pushes, because its store takes no writes.
    package var isWaiting: Bool
    package var isCancelled: Bool

    package var doneCount: Int { counts.values.reduce(0, +) }
  }

  /// Why a job is not accepted.
  package enum Refusal: Error {
    case tooMany(running: Int)
    /// Another request has the same idempotency key, and another content.
    case otherRequest(PushJob)
    /// The first request with this idempotency key has not been answered yet.
    case sameRequest
    case notStored(String)
    case stopping
  }

  struct Entry: Sendable {
    let job: PushJob
    /// Empty once the job is over.
    var devices: [DeviceID] = []
    /// Nil once the job is over.
    var progress: JobProgress?
    var end: JobFolder.End?
    /// Whether it was begun by an earlier process.
    var isResumed = false
    /// Bytes of its results on disk.
    var resultBytes = 0
  }

  private struct State {
    /// The oldest first.
    var entries: [Entry] = []
    var openKeys: Set<String> = []
    /// The entry whose turn it is.
    var turn = 0
    var isStarted = false
    var isStopping = false
    var isStopped = false

    func index(_ id: NotificationID) -> Int? { entries.firstIndex { $0.job.id == id } }

    /// The next step of the jobs that run, each in its turn.
    mutating func next(nowMilliseconds now: Int64) -> Monitor<State>.Look<Step> {
      var wait: Int64?
      var isQuiet = true
      for offset in 0..<entries.count {
        let index = (turn + offset) % entries.count
        guard let step = entries[index].next(nowMilliseconds: now, sends: !isStopping) else {
          isQuiet = isQuiet && entries[index].isQuiet
          for time in entries[index].times { wait = min(wait ?? time, time) }
          continue
        }
        turn = index + 1
        return .found(step)
      }
      return isStopping && isQuiet ? .found(.stop) : .wait(untilMilliseconds: wait)
    }
  }

  fileprivate enum Step {
    case write(NotificationID, [UInt8], after: Int)
    case send(GroupBatch)
    case end(NotificationID, JobFolder.End)
    case stop
  }

  private let folder: JobFolder
  private let log: Log
  private let state = Monitor(State())

  private static let stopMilliseconds: Int64 = 2000

  package init(_ directory: DataDirectory, log: Log) {
    folder = directory.jobFolder
    self.log = log
  }

  // MARK: Start and stop

  /// Reads the jobs, and finds out how far unfinished ones are. A job that cannot be read is logged and left out.
  ///
  /// - Parameter journaled: Lines of the ledger that are not in the store yet.
  package func load(_ store: some StoreReader, journaled: [LedgerRecord]) {
    var entries: [Entry] = []
    for file in attempt({ try folder.files() }) ?? [] {
      guard let entry = attempt({ try read(file) }) else { continue }
      entries.append(entry)
    }
    entries.sort { $0.job.createdMilliseconds < $1.job.createdMilliseconds }
    let open = entries.indices.filter { entries[$0].end == nil }
    // Without the traces, devices would get notifications again that their clients may not recognise.
    let traces = attempt {
      try JobTraces(
        of: open.map { (entries[$0].job, entries[$0].devices) }, store, journaled: journaled)
    }
    guard let traces else { return }
    for (index, done) in zip(open, traces.done) {
      entries[index].progress?.recover(done)
      log(
        .notice, "job continues", .text("job", entries[index].job.id.text),
        .number("devices", entries[index].devices.count),
        .number("done", entries[index].progress?.doneCount ?? 0))
    }
    state.withLock { $0.entries = entries }
  }

  private func read(_ file: String) throws -> Entry {
    let (job, end) = try folder.job(file)
    var entry = Entry(job: job, end: end)
    guard end == nil else { return entry }
    entry.devices = try folder.devices(of: job)
    let (outcomes, byteCount) = try folder.outcomes(of: job)
    entry.resultBytes = byteCount
    entry.isResumed = true
    entry.progress = JobProgress(outcomes: outcomes, window: Self.window)
    return entry
  }

  private func attempt<Value>(_ body: () throws -> Value) -> Value? {
    do {
      return try body()
    } catch {
      log(.error, "job not read", .text("reason", "\(error)"))
      return nil
    }
  }

  package func start(_ service: some GroupPushing) {
    state.withLock { $0.isStarted = true }
    prune()
    startThread { [self] in run(service) }
  }

  /// Sends nothing more, and waits for what is on its way, for two seconds at most. Unfinished jobs continue after the
  /// next start.
  package func stop() {
    let deadline = monotonicMilliseconds() + Self.stopMilliseconds
    let isStarted = state.notify { state in
      state.isStopping = true
      return state.isStarted
    }
    guard isStarted else { return }
    state.wait { state in
      state.isStopped || monotonicMilliseconds() >= deadline
        ? .found(()) : .wait(untilMilliseconds: deadline)
    }
  }

  /// Devices of a job that are on their way at a time: enough to keep the workers busy. With more, acknowledgements
  /// take longer than the service waits for them before it stores a notification, which costs as much as sending it.
  private static let window = 2 * Limits.jobBatchDevices

  // MARK: Jobs

  /// Accepts a job: it is on disk when this returns.
  ///
  /// - Returns: The job; an earlier one if it was the same request.
  package func submit(
    _ job: PushJob, to devices: [DeviceID]
  ) throws(Refusal) -> (facts: Facts, isNew: Bool) {
    if let known = try reserve(job) { return (known, false) }
    defer { state.notify { state in _ = job.idempotency.map { state.openKeys.remove($0.key) } } }
    do {
      try folder.create(job, devices)
    } catch {
      throw .notStored("\(error)")
    }
    prune()
    let entry = Entry(
      job: job, devices: devices,
      progress: JobProgress(
        outcomes: [UInt8](repeating: 0, count: devices.count), window: Self.window))
    state.notify { $0.entries.append(entry) }
    return (entry.facts, true)
  }

  /// The same request's job, if there is one; otherwise nobody else can use its key until it is accepted.
  private func reserve(_ job: PushJob) throws(Refusal) -> Facts? {
    let outcome: Result<Facts?, Refusal> = state.withLock { state in
      if let idempotency = job.idempotency {
        if let known = state.entries.last(where: { $0.job.idempotency?.key == idempotency.key }) {
          guard known.job.idempotency == idempotency else {
            return .failure(.otherRequest(known.job))
          }
          return .success(known.facts)
        }
        guard !state.openKeys.contains(idempotency.key) else { return .failure(.sameRequest) }
      }
      guard !state.isStopping else { return .failure(.stopping) }
      let running = state.entries.count { $0.end == nil }
      guard running < Limits.jobs else { return .failure(.tooMany(running: running)) }
      if let key = job.idempotency?.key { state.openKeys.insert(key) }
      return .success(nil)
    }
    return try outcome.get()
  }

  /// All jobs, the newest first.
  package func facts() -> [Facts] { state.withLock { $0.entries.reversed().map(\.facts) } }

  package func facts(of id: NotificationID) -> Facts? {
    state.withLock { state in state.index(id).map { state.entries[$0].facts } }
  }

  /// The devices of a job with their outcomes.
  package struct Results: Sendable {
    package var devices: [DeviceID]
    /// By place; nil for a device that is not done.
    package var outcomes: [GroupOutcome?]
  }

  /// Nil if there is no such job.
  package func results(of id: NotificationID) throws -> Results? {
    let entry = state.withLock { state in state.index(id).map { state.entries[$0] } }
    guard let entry else { return nil }
    let isOver = entry.progress == nil
    let devices = isOver ? try folder.devices(of: entry.job) : entry.devices
    let outcomes = try entry.progress?.outcomes ?? folder.outcomes(of: entry.job).outcomes
    return Results(devices: devices, outcomes: outcomes.map { GroupOutcome(rawValue: $0) })
  }

  /// Ends a job: devices that were not sent to get nothing. Nil if there is no such job, or it is over.
  package func cancel(_ id: NotificationID) -> Facts? {
    state.notify { state in
      guard let index = state.index(id), state.entries[index].progress != nil else { return nil }
      state.entries[index].progress?.cancel()
      return state.entries[index].facts
    }
  }

  /// Removes jobs that ended long ago, and the oldest of too many.
  private func prune() {
    let oldest = EventLoop.wallClockMilliseconds() - Limits.jobKeptMilliseconds
    let removed = state.withLock { state in
      var surplus = state.entries.count { $0.end != nil } - Limits.jobsKept
      var removed: [NotificationID] = []
      state.entries.removeAll { entry in
        guard let end = entry.end, surplus > 0 || end.milliseconds < oldest else { return false }
        surplus -= 1
        removed.append(entry.job.id)
        return true
      }
      return removed
    }
    for id in removed { folder.remove(id) }
  }

  // MARK: The thread

  private func run(_ service: some GroupPushing) {
    while true {
      let step = state.wait { $0.next(nowMilliseconds: monotonicMilliseconds()) }
      switch step {
      case .send(let batch):
        let id = batch.job
        service.send(batch) { [self] placed in
          state.notify { state in
            guard let index = state.index(id) else { return }
            state.entries[index].progress?.finish(placed, nowMilliseconds: monotonicMilliseconds())
          }
        }
      case .write(let id, let bytes, let place): write(bytes, to: id, after: place)
      case .end(let id, let end): finish(id, end)
      case .stop:
        state.notify { $0.isStopped = true }
        return
      }
    }
  }

  private func write(_ bytes: [UInt8], to id: NotificationID, after byteCount: Int) {
    var isWritten = true
    do { try folder.append(bytes, to: id, after: byteCount) } catch {
      isWritten = false
      report(error)
    }
    state.notify { state in
      guard let index = state.index(id) else { return }
      if isWritten {
        state.entries[index].resultBytes += bytes.count
      } else {
        state.entries[index].progress?.giveBack(bytes, nowMilliseconds: monotonicMilliseconds())
      }
    }
  }

  private func finish(_ id: NotificationID, _ end: JobFolder.End) {
    do {
      try folder.end(id, end)
    } catch {
      report(error)
      return state.notify { state in
        guard let index = state.index(id) else { return }
        state.entries[index].progress?.giveBack([], nowMilliseconds: monotonicMilliseconds())
      }
    }
    state.notify { state in
      guard let index = state.index(id) else { return }
      state.entries[index].end = end
      state.entries[index].progress = nil
      state.entries[index].devices = []
    }
    log(
      .info, "job ended", .text("job", id.text),
      .number("accepted", end.counts[.accepted] ?? 0),
      .number("others", end.counts.values.reduce(0, +) - (end.counts[.accepted] ?? 0)))
    prune()
  }

  private func report(_ error: any Error) {
    log.limited(.error, .jobNotWritten, atMilliseconds: EventLoop.monotonicMilliseconds()) {
      [.text("reason", "\(error)")]
    }
  }
}

extension JobService.Entry {
  var facts: JobService.Facts {
    JobService.Facts(
      job: job, counts: progress?.counts ?? end?.counts ?? [:],
      endedMilliseconds: end?.milliseconds, isWaiting: progress?.isWaiting ?? false,
      isCancelled: progress?.isCancelled ?? (end?.counts[.cancelled] != nil))
  }

  fileprivate mutating func next(nowMilliseconds now: Int64, sends: Bool) -> JobService.Step? {
    if let bytes = progress?.takeUnwritten(nowMilliseconds: now), !bytes.isEmpty {
      return .write(job.id, bytes, after: resultBytes)
    }
    if progress?.takeEnd(nowMilliseconds: now) == true {
      return .end(
        job.id,
        JobFolder.End(
          milliseconds: EventLoop.wallClockMilliseconds(), counts: progress?.counts ?? [:]))
    }
    guard sends,
      let batch = progress?.takeBatch(of: Limits.jobBatchDevices, nowMilliseconds: now),
      !batch.places.isEmpty
    else { return nil }
    return .send(
      GroupBatch(
        job: job.id, push: job.push, devices: batch.places.map { devices[Int($0)] },
        places: batch.places, mayBeRepeated: isResumed || batch.areRetries))
  }

  /// Whether nothing is on its way to devices or to the disk.
  fileprivate var isQuiet: Bool { progress.map { $0.inFlight == 0 && $0.isWritten } ?? true }

  /// When there may be a next step without anything else happening.
  fileprivate var times: [Int64] {
    [progress?.retryMilliseconds, progress?.rewriteMilliseconds].compactMap(\.self)
  }
}
