package import ApusDirectory
package import ApusLog
import ApusLoop
import ApusThread
import Synchronization

/// Writes events to the queue of a data directory, and sends them to its webhooks: a thread for the queue, and one for
/// each webhook. Without webhooks the first one looks once a second for their file.
package final class WebhookService: Sendable {
  /// What is known of a webhook.
  package struct Facts: Sendable {
    package var name: String
    /// Events that were delivered since the start.
    package var delivered: UInt64
    /// Failed requests since the start.
    package var failures: UInt64
    /// Events of all kinds in the queue that were not delivered yet.
    package var waiting: UInt64
  }

  struct Hook: Sendable {
    var webhook: Webhook
    var delivery: WebhookDelivery
    var facts: Facts
    /// Whether a request is on its way.
    var isSending = false
  }

  struct State {
    var queue: EventQueue?
    /// By the numbers that they got when they were added: one that is removed and added again is another.
    var hooks: [Int: Hook] = [:]
    var nextHook = 0
    var isStopping = false
    var isStopped = false
    /// Events that could not be written since the last ones that were.
    var unwritten: UInt64 = 0
    /// What the queue may have or not, because the database of a cluster did not confirm it, with the number of the
    /// first event. Nothing is sent until that is known: the database may give the numbers to other events.
    var doubt: (first: UInt64, events: [String])?
    /// Why the webhooks could not be read, or their queue not be opened.
    var failure: String?
  }

  package let sink: EventSink
  let directory: DataDirectory
  /// The part of a cluster's devices of which it tells.
  private let part: Int
  let log: Log
  let state = Monitor(State())
  private let limitBytes: Int
  private let firstEvent: UInt64
  private let everySecond: @Sendable (EventSink) -> Void

  /// Numbers of the queues of different parts are two years of events apart, and all fit into 53 bits.
  private static let partBits: UInt64 = 46
  private static let flushMilliseconds: Int64 = 100
  private static let stopMilliseconds: Int64 = 2000
  /// Exists while a service runs; if it is there at a start, the last one was killed.
  private var runningFile: String { "\(folder)/running" }
  private var folder: String { directory.webhookFolder(ofPart: part) }

  /// - Parameters:
  ///   - part: The part of a cluster's devices of which it tells; 0 for the only one. Each has a queue of its own.
  ///   - megabytes: The most that the queue may have on disk.
  ///   - firstEvent: The number of the first event of a new queue. Receivers leave out numbers that they know, so it
  ///     must be above all that an earlier queue had: the time, in microseconds, is.
  ///   - everySecond: Reports what nobody else does, on the thread of the queue.
  package init(
    _ directory: DataDirectory, part: Int = 0, sink: EventSink, megabytes: Int, firstEvent: UInt64,
    log: Log, everySecond: @escaping @Sendable (EventSink) -> Void
  ) {
    self.directory = directory
    self.sink = sink
    self.log = log
    limitBytes = megabytes << 20
    self.part = part
    self.firstEvent = firstEvent + UInt64(part) << Self.partBits
    self.everySecond = everySecond
  }

  package func start() {
    // What is reported before the queue is open waits in memory. The thread says why a file cannot be read.
    if let webhooks = try? directory.webhooks() { sink.setKinds(Self.kinds(of: webhooks)) }
    startThread { [self] in run() }
  }

  private static func kinds(of webhooks: [Webhook]) -> EventKinds {
    webhooks.reduce(EventKinds()) { $0.union($1.events) }
  }

  /// Writes what was reported, for two seconds at most. Nothing is written any more after it, so call it while the
  /// service may still write what nodes share.
  package func finishWriting() { stop { $0.isStopped } }

  /// The same, and lets requests that are on their way end, for two seconds at most.
  package func stop() {
    stop { $0.isStopped && !$0.hooks.values.contains(where: \.isSending) }
  }

  private func stop(once isQuiet: (State) -> Bool) {
    state.notify { $0.isStopping = true }
    let deadline = monotonicMilliseconds() + Self.stopMilliseconds
    state.wait { state in
      isQuiet(state) || monotonicMilliseconds() >= deadline
        ? .found(()) : .wait(untilMilliseconds: deadline)
    }
  }

  package func facts() -> [Facts] {
    state.withLock { state in
      let next = state.queue?.next ?? 1
      return state.hooks.values.map { hook in
        var facts = hook.facts
        facts.waiting = next - min(next, hook.delivery.position)
        return facts
      }.sorted { $0.name < $1.name }
    }
  }

  /// Events that were dropped because the queue was full, since the start.
  package var droppedCount: UInt64 { state.withLock { $0.queue?.droppedCount ?? 0 } }

  // MARK: The thread of the queue

  private func run() {
    var stamp: FileStamp?
    var nextSecond: Int64 = 0
    while true {
      let isStopping = state.withLock { $0.isStopping }
      let now = monotonicMilliseconds()
      if now >= nextSecond || isStopping {
        nextSecond = now + 1000
        let found = FileStamp(directory.webhookFile)
        if found != stamp, reload() { stamp = found }
        if state.withLock({ !$0.hooks.isEmpty }) { everySecond(sink) }
      }
      flush(isLast: isStopping)
      if isStopping { return finish() }
      let pause = state.withLock { $0.hooks.isEmpty } ? nextSecond : now + Self.flushMilliseconds
      state.wait { state in
        state.isStopping || monotonicMilliseconds() >= pause
          ? .found(()) : .wait(untilMilliseconds: pause)
      }
    }
  }

  /// Reads the file of webhooks. One that cannot be read changes nothing; false if it is to be tried again.
  private func reload() -> Bool {
    let webhooks: [Webhook]
    do {
      webhooks = try directory.webhooks()
      try settleDoubt()
      if !webhooks.isEmpty { try openQueue() }
    } catch {
      let isNew = state.withLock { state in
        defer { state.failure = "\(error)" }
        return state.failure != "\(error)"
      }
      if isNew { log(.error, "webhooks not changed", .text("reason", "\(error)")) }
      return false
    }
    let new = state.notify { state in
      state.failure = nil
      state.hooks = state.hooks.filter { _, hook in
        webhooks.contains { $0.name == hook.webhook.name }
      }
      return webhooks.compactMap { replaceOrAdd($0, to: &state) }
    }
    sink.setKinds(Self.kinds(of: webhooks))
    for number in new {
      savePosition(of: number)
      startThread { [self] in WebhookSender(self, number).run() }
    }
    return true
  }

  /// - Returns: The number of a webhook that is new.
  private func replaceOrAdd(_ webhook: Webhook, to state: inout State) -> Int? {
    if let known = state.hooks.first(where: { $0.value.webhook.name == webhook.name }) {
      state.hooks[known.key]?.webhook = webhook
      return nil
    }
    let next = state.queue?.next ?? 1
    let position = directory.webhookState(webhook.name, part: part)?.position ?? next
    defer { state.nextHook += 1 }
    state.hooks[state.nextHook] = Hook(
      webhook: webhook, delivery: WebhookDelivery(position: min(position, next)),
      facts: Facts(name: webhook.name, delivered: 0, failures: 0, waiting: 0))
    return state.nextHook
  }

  private func openQueue() throws {
    guard state.withLock({ $0.queue == nil }) else { return }
    // In a cluster this brings the files up to date. What a queue of older ones appends has numbers that are in use.
    let queue = try directory.sharing {
      try Files.makeDirectory(directory.webhookFolder)
      try Files.makeDirectory(folder)
      let queue = try makeQueue()
      let wasKilled = try !DurableFile.create([], at: runningFile)
      if wasKilled {
        let reason = "the service did not shut down; its last events may be missing"
        try queue.append([
          WebhookRequest.gap(
            milliseconds: EventLoop.wallClockMilliseconds(), [.text("reason", reason)])
        ])
      }
      return queue
    }
    state.notify { $0.queue = queue }
  }

  private func makeQueue() throws -> EventQueue {
    try EventQueue(folder: folder, limitBytes: limitBytes, first: firstEvent)
  }

  /// Writes what was reported. A gap alone, after events that could not be written, only at the end.
  private func flush(isLast: Bool) {
    do { try settleDoubt() } catch { return }
    guard state.withLock({ $0.queue != nil }) else { return }
    let (events, dropped) = sink.take()
    let hasGap = isLast && state.withLock { $0.unwritten > 0 }
    guard !events.isEmpty || dropped > 0 || hasGap else { return }
    let now = EventLoop.wallClockMilliseconds()
    let failure = state.notify { state -> String? in
      state.unwritten += dropped
      var events = events
      if state.unwritten > 0 {
        events.append(
          WebhookRequest.gap(
            milliseconds: now,
            [.number("missed", state.unwritten), .text("reason", "they could not be written")]))
      }
      var first: UInt64 = 0
      do {
        try directory.sharing {
          if directory.isInCluster, state.queue?.isCurrent == false {
            state.queue = try makeQueue()
          }
          first = state.queue?.next ?? 0
          try state.queue?.append(events)
        }
        state.unwritten = 0
        return nil
      } catch {
        guard directory.isInCluster else {
          state.unwritten += UInt64(events.count)
          return "\(error)"
        }
        state.unwritten = 0
        state.doubt = (first > 0 ? first : state.queue?.next ?? 0, events)
        state.queue = nil
        return "\(error)"
      }
    }
    if let failure { log(.error, "events for webhooks not written yet", .text("reason", failure)) }
  }

  /// Finds out whether the database has what it did not confirm, and writes it if not.
  private func settleDoubt() throws {
    guard let doubt = state.withLock({ $0.doubt }) else { return }
    let queue = try directory.sharing {
      let queue = try makeQueue()
      if try !queue.has(doubt.events[0], at: doubt.first) { try queue.append(doubt.events) }
      return queue
    }
    state.notify { state in
      state.queue = queue
      state.doubt = nil
    }
  }

  private func finish() {
    for number in state.withLock({ Array($0.hooks.keys) }) { savePosition(of: number) }
    // If events are missing that no gap tells of, the next start must.
    if state.withLock({ $0.queue != nil && $0.doubt == nil && $0.unwritten == 0 }) {
      try? directory.sharing { try DurableFile.remove(runningFile) }
    }
    state.notify { $0.isStopped = true }
  }

  // MARK: For senders

  /// Notes how far a webhook is. A failure costs a repetition after the next start.
  func savePosition(of number: Int, error: String? = nil) {
    guard let hook = state.withLock({ $0.hooks[number] }) else { return }
    let noted = WebhookState(
      position: hook.delivery.position, failures: hook.delivery.failures, error: error)
    try? directory.sharing { try directory.save(noted, of: hook.webhook.name, part: part) }
  }
}
