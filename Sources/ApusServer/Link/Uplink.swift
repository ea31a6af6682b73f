import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusWire

/// An edge's worker's link for providers' notifications: they go to the node that decides, and verdicts come back.
///
/// While there is none, notifications wait, for `Limits.linkWaitMilliseconds`.
final class Uplink {
  private let context: WorkerContext
  private let edge: Edge
  private var sends = LinkedSends()
  private var stream: LinkStream?
  private var output: [UInt8] = []
  private let partial = PartialFrames()
  private var dialing = LinkDialing()
  private var timer: LoopTimer?
  private var trouble = LinkTrouble()
  private var repeatedCount: UInt64 = 0
  private var givenUpCount: UInt64 = 0
  /// Takes each verdict, and the notification for reuse; nil with a notice.
  private let onVerdict: (Verdict, Notification?) -> Void

  /// False breaks that rule, for simulations.
  var routesAgain = true

  private static let tickMilliseconds: UInt64 = 100

  init(
    _ context: WorkerContext, _ edge: Edge,
    onVerdict: @escaping (Verdict, Notification?) -> Void
  ) {
    self.context = context
    self.edge = edge
    self.onVerdict = onVerdict
    let timer = LoopTimer(loop: context.loop) { [unowned self] in tick() }
    timer.start(
      afterMilliseconds: Self.tickMilliseconds, repeatMilliseconds: Self.tickMilliseconds)
    self.timer = timer
  }

  var figures: LinkFigures {
    var figures = LinkFigures()
    figures.isUp = stream?.isOpen == true
    figures.undecided = sends.count
    figures.repeated = repeatedCount
    figures.givenUp = givenUpCount
    return figures
  }

  /// The verdict comes to `onVerdict`.
  func submit(_ notification: consuming Notification, _ answer: Answer) {
    sends.submit(notification, answer, nowMilliseconds: context.loop.nowMilliseconds)
  }

  /// Another node decides, or none.
  func targetChanged() {
    dropStream()
    dialing.hurry()
    connect()
  }

  /// Sends what the turn brought about.
  func endTurn() {
    guard sends.waitingCount > 0, let stream, stream.mayWrite else { return }
    output.removeAll(keepingCapacity: true)
    while stream.mayWrite, let (number, notification) = sends.next() {
      LinkedNotification.encode(notification, number: number, to: &output)
      if output.count >= Limits.outputHighWaterBytes / 4 { flush(to: stream) }
    }
    flush(to: stream)
  }

  private func flush(to stream: LinkStream) {
    stream.write(output)
    output.removeAll(keepingCapacity: true)
  }

  func dismantle() {
    dropStream()
    timer = nil
  }

  // MARK: The connection

  private func tick() {
    connect()
    while let late = sends.nextOverdue(nowMilliseconds: context.loop.nowMilliseconds) {
      givenUpCount += 1
      onVerdict(
        Verdict(answer: late.answer, rejection: Rejection(.serviceUnavailable)), late.notification)
    }
  }

  private func connect() {
    guard stream == nil else { return }
    do {
      stream = try dialing.dial(
        edge, context, silenceMilliseconds: Limits.linkWaitMilliseconds, user: self)
    } catch {
      failed("\(error)")
    }
  }

  private func failed(_ fault: String) {
    dropStream()
    trouble.note(fault, context, edge)
  }

  private func dropStream() {
    stream?.close()
    stream = nil
    partial.removeAll()
    repeatedCount += UInt64(sends.count - sends.waitingCount)
    if routesAgain { sends.linkEnded() }
  }
}

extension Uplink: LinkStreamUser {
  func linkOpened() {
    trouble.ended()
    stream?.write(edge.preface(.notifications))
  }

  func linkReceived(_ bytes: Span<UInt8>) { partial.take(bytes) { take($0) } }

  /// Takes the complete verdicts, and returns where the rest begins.
  private func take(_ bytes: Span<UInt8>) -> Int {
    var offset = 0
    while let verdict = LinkVerdict.next(bytes, at: &offset) {
      if let notice = verdict.notice {
        if let answer = sends.answer(of: verdict.number) {
          onVerdict(Verdict(answer: answer, notice: notice.forSender), nil)
        }
        continue
      }
      guard let decided = sends.decided(verdict.number) else { continue }
      onVerdict(
        Verdict(answer: decided.answer, rejection: verdict.rejection), decided.notification)
    }
    return offset
  }

  /// The turn that follows sends on.
  func linkDrained() {}

  func linkFinished() { failed("the node stops") }

  func linkLost(_ fault: String) { failed(fault) }
}
