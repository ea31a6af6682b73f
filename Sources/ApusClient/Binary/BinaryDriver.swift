import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust

/// Commands to the loop of a binary client.
enum BinaryCommandItem: Sendable {
  case cancel(UInt64)
  /// Accept no more pushes, wait for existing ones, and close cleanly; then call the closure.
  case close(@Sendable () -> Void)
  /// End everything immediately.
  case abandon
}

/// Moves pushes from the intake to the lanes, opens connections for them, and delivers outcomes. Confined to its loop.
@safe final class BinaryDriver: BinaryLinkOwner {
  let loop: EventLoop
  let buffers = TLSBuffers()
  let receiveBuffer: UnsafeMutableRawBufferPointer
  let configuration: BinaryClientConfiguration
  let format: FrameFormat
  var identity: BinaryIdentity
  private let intake: FrameIntake
  let report: BinaryReport
  var lanes: [BinaryLane]
  /// Taken from the intake, without a lane yet.
  var waiting = FrameIntake.Batch()
  var plan = ReconnectPlan()
  var attempt: ConnectAttempt?
  var lastFailure = ""
  private var timer: LoopTimer?
  private var closers: [@Sendable () -> Void] = []
  private var isClosing = false
  var isOver = false
  private let tickMilliseconds: UInt64

  private static let receiveBytes = 16_384

  init(
    loop: EventLoop, configuration: BinaryClientConfiguration, format: FrameFormat,
    identity: BinaryIdentity, intake: FrameIntake, report: BinaryReport
  ) {
    self.loop = loop
    self.configuration = configuration
    self.format = format
    self.identity = identity
    self.intake = intake
    self.report = report
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
    lanes = [BinaryLane(SentQueue(format: format, window: configuration.window))]
    tickMilliseconds = max(10, min(50, UInt64(configuration.silenceMilliseconds) / 8))
    timer = LoopTimer(loop: loop) { [unowned self] in tick() }
    loop.onTurnEnd = { [unowned self] in turnEnds() }
  }

  deinit { unsafe receiveBuffer.deallocate() }

  // MARK: Commands

  func handle(_ commands: [BinaryCommandItem]) {
    for command in commands {
      switch command {
      case .cancel(let ticket): cancel(ticket)
      case .close(let closer):
        closers.append(closer)
        isClosing = true
      case .abandon: abandon()
      }
    }
  }

  private func cancel(_ ticket: UInt64) {
    guard !waiting.cancel(ticket), !intake.cancel(ticket) else {
      return report.pending.deliver(
        ticket, .unknown(UnknownCause(.cancelled), retryMayDuplicate: false))
    }
    for lane in lanes { lane.queue.cancel(ticket) }
  }

  private func abandon() {
    guard !isOver else { return }
    isOver = true
    attempt = nil
    for lane in lanes {
      lane.link?.abandon()
      lane.link = nil
      lane.queue.abandon(.clientClosed)
      report.deliver(&lane.queue, "the client was closed")
    }
    failWaiting(.clientClosed, "")
    timer?.close()
    loop.onTurnEnd = nil
    for closer in closers { closer() }
    closers = []
  }

  // MARK: Turns

  private func turnEnds() {
    guard !isOver else { return }
    fill()
    for lane in lanes {
      lane.link?.flush()
      if lane.queue.needsNewConnection, lane.queue.isSettled { sayGoodbye(lane) }
    }
    if isClosing { closeLanes() }
    for lane in lanes { report.deliver(&lane.queue, lane.lastFailure) }
    guard !isOver else { return }
    connectIfNeeded()
    setTimer()
  }

  /// Distributes waiting pushes over the open lanes with room.
  private func fill() {
    var batch = FrameIntake.Batch()
    swap(&batch, &waiting)
    defer { swap(&batch, &waiting) }
    var full = 0
    while full < lanes.count {
      if batch.isEmpty {
        intake.take(into: &batch)
        if batch.isEmpty { return }
      }
      full = 0
      for lane in lanes where !fill(lane, from: &batch) { full += 1 }
    }
  }

  /// False if the lane takes no more now.
  private func fill(_ lane: BinaryLane, from batch: inout FrameIntake.Batch) -> Bool {
    guard lane.isOpen, !lane.isProbed, !lane.queue.endsInProbe, !lane.queue.needsNewConnection
    else { return false }
    // In portions, so that lanes share the pushes.
    for _ in 0..<256 {
      guard !batch.isEmpty else { return true }
      let item = batch.first
      if item.ticket != FrameIntake.Item.cancelled {
        let isTaken = lane.queue.append(
          batch.firstFrame, ticket: item.ticket, id: item.id,
          deadlineMilliseconds: item.deadlineMilliseconds)
        guard isTaken else { return false }
      }
      batch.removeFirst()
    }
    return true
  }

  func failWaiting(_ cause: UnknownCause.Code, _ text: String) {
    while true {
      while !waiting.isEmpty { failFirstWaiting(cause, text) }
      intake.take(into: &waiting)
      if waiting.isEmpty { return }
    }
  }

  private func failFirstWaiting(_ cause: UnknownCause.Code, _ text: String) {
    let item = waiting.first
    waiting.removeFirst()
    guard item.ticket != FrameIntake.Item.cancelled else { return }
    report.deliver(item, cause, text)
  }

  // MARK: Time

  private func tick() {
    let now = monotonicMilliseconds()
    for lane in lanes {
      lane.link?.tick(nowMilliseconds: now)
      lane.queue.expire(nowMilliseconds: now)
    }
    while true {
      while !waiting.isEmpty, waiting.first.deadlineMilliseconds <= now {
        failFirstWaiting(.timedOut, lastFailure)
      }
      guard waiting.isEmpty else { return }
      intake.take(into: &waiting)
      if waiting.isEmpty { return }
    }
  }

  /// The timer runs only while there is something to wait for, so an idle client costs nothing.
  private func setTimer() {
    guard let timer else { return }
    let isNeeded =
      attempt != nil || !waiting.isEmpty
      || lanes.contains { $0.queue.pendingCount > 0 || $0.link.map { !$0.isOpen } ?? false }
    guard isNeeded != timer.isActive else { return }
    if isNeeded {
      timer.start(afterMilliseconds: tickMilliseconds, repeatMilliseconds: tickMilliseconds)
    } else {
      timer.stop()
    }
  }

  // MARK: Closing

  private func closeLanes() {
    for lane in lanes {
      guard let link = lane.link else { continue }
      if lane.queue.pendingCount > 0 {
        probe(lane, link)
      } else if waiting.isEmpty {
        sayGoodbye(lane)
      }
    }
    guard waiting.isEmpty else { return }
    if lanes.allSatisfy({ $0.link == nil && $0.queue.pendingCount == 0 }) { abandon() }
  }

  /// Ends a connection without open notifications, or one that is being opened.
  private func sayGoodbye(_ lane: BinaryLane) {
    guard let link = lane.link, !link.isClosing else { return }
    link.goodbye(nowMilliseconds: monotonicMilliseconds())
    guard link.isClosed else { return }
    lane.link = nil
    if attempt?.lane === lane { attempt = nil }
  }

  /// Sends a probe instead of waiting for the end of the silence, once the lane takes no more and everything is
  /// written.
  private func probe(_ lane: BinaryLane, _ link: BinaryLink) {
    guard !configuration.expectsConfirmations, link.isOpen, !lane.isProbed,
      lane.queue.unwrittenCount == 0
    else { return }
    lane.isProbed = true
    if lane.queue.appendProbe() { link.flush() }
  }
}
