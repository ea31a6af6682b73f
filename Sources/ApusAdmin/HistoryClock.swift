import ApusCore
import ApusLoop
import ApusModel

/// Samples a service every ten seconds, on a thread of its own, because sampling waits for the workers.
@safe final class HistoryClock: @unchecked Sendable {
  private let loop = EventLoop(name: "apus-history")
  private var timer: LoopTimer?

  /// - Parameter measure: Called at once and then every ten seconds.
  init(_ measure: @escaping @Sendable () -> Void) {
    let timer = LoopTimer(loop: loop, handler: measure)
    timer.start(
      afterMilliseconds: 0, repeatMilliseconds: UInt64(ServiceHistory.stepSeconds) * 1000)
    self.timer = timer
    loop.start()
  }

  /// Stops sampling. Returns when the last call has ended.
  func stop() {
    loop.perform { [self] in timer = nil }
    loop.stop()
    loop.join()
  }
}

extension ServiceView {
  /// The service's counts up to now.
  func totals() -> ServiceHistory.Totals {
    let facts = facts(ownFacts())
    let topics = topicCounters()
    var totals = ServiceHistory.Totals(milliseconds: EventLoop.wallClockMilliseconds())
    totals.accepted = topics.reduce(0) { $0 + $1.accepted }
    totals.delivered = topics.reduce(0) { $0 + $1[.delivered] + $1[.deliveredFromStorage] }
    totals.refused = rejections().reduce(0) { $0 + $1.number }
    totals.connected = facts.sessions.connected
    totals.stored = facts.stored
    totals.latencies = facts.latencies
    return totals
  }
}
