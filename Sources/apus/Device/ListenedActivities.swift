import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusWire

/// The Live Activities of the device of `apus listen`, which prints what happens to them. Confined to its loop.
///
/// The device has the app's token only: what does not start an activity is for the newest one that runs.
final class ListenedActivities {
  private let loop: EventLoop
  private let strings: [String: String]
  private let print: (ActivityLine) -> Void
  private var activities = LiveActivities()
  private var timer: LoopTimer?

  /// Maximum wait, after which it looks again: the wall clock may be set in the meantime.
  private static let longestWaitMilliseconds: Int64 = 60_000

  init(loop: EventLoop, strings: [String: String], print: @escaping (ActivityLine) -> Void) {
    self.loop = loop
    self.strings = strings
    self.print = print
  }

  private var nowSeconds: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  /// Takes a notification; ignores those of other topics.
  func receive(_ payload: Span<UInt8>, topic: String) {
    let bytes = Array(topic.utf8)
    guard TopicSuffix(of: bytes.span) == .liveActivity else { return }
    advance()
    do throws(ActivityDrop) {
      tell(
        try activities.receive(
          payload, topic: topic, over: .onlyToken, strings: strings, at: nowSeconds))
    } catch {
      print(ActivityLine(topic: topic, event: "dropped", reason: error.description))
    }
    schedule()
  }

  private func advance() { tell(activities.advance(to: nowSeconds)) }

  private func tell(_ changes: [LiveActivities.Change]) {
    for change in changes {
      guard let activity = activities[change.id] else { continue }
      let isContent = [.started, .updated, .ended].contains(change.kind)
      print(
        ActivityLine(
          topic: activity.topic, event: change.kind.name, activity: change.id,
          attributesType: activity.attributesType,
          contentState: isContent ? activity.contentState : nil))
    }
  }

  private func schedule() {
    guard let next = activities.nextChangeSeconds else {
      timer?.stop()
      return
    }
    let timer =
      timer
      ?? LoopTimer(loop: loop) { [unowned self] in
        advance()
        schedule()
      }
    self.timer = timer
    let wait = next * 1000 - EventLoop.wallClockMilliseconds()
    timer.start(afterMilliseconds: UInt64(min(max(wait, 1), Self.longestWaitMilliseconds)))
  }

  func stop() {
    timer?.close()
    timer = nil
  }
}
