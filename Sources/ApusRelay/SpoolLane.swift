import ApusClient
import ApusCore
import ApusModel

/// The notifications of one topic in the spool: which is sent when (`RelayLane`), and what is in memory of them.
/// Confined to the spool's loop.
final class SpoolLane {
  let topic: RelayTopic
  var machine: RelayLane
  var alarm: ConfigurationAlarm {
    didSet { totals.isInDoubt = alarm.isRaised }
  }
  /// What the machine knows, by order of acceptance.
  var contents: [UInt64: SpooledNotification] = [:]
  /// Those whose tokens upstream takes for bad, while the configuration is in doubt, and its reasons.
  var doubted: [(order: UInt64, cause: UpstreamCause)] = []
  var totals: SpoolTotals
  var ended = RelayEndings()
  /// Whether it has something to do in this turn.
  var isDue = false
  /// Whether its totals are to be written.
  var isChanged = false
  var exit: LaneExit?

  /// - Parameter totals: What the store has.
  init(_ topic: RelayTopic, _ totals: SpoolTotals) {
    self.topic = topic
    self.totals = totals
    alarm = ConfigurationAlarm(isRaised: totals.isInDoubt)
    machine = RelayLane(storedCount: totals.count)
  }

  /// The ends of the notifications in memory whose time is over.
  func over(nowMilliseconds: Int64, ageSeconds: Int64) -> [UInt64: SpoolEnd] {
    contents.compactMapValues {
      $0.end(nowMilliseconds: nowMilliseconds, ageSeconds: ageSeconds)
    }
  }

  var figures: RelayFigures {
    var figures = RelayFigures(app: topic.app, environment: topic.environment)
    (figures.count, figures.byteCount) = (totals.count, totals.byteCount)
    (figures.doubtedCount, figures.hold) = (doubted.count, machine.hold)
    figures.ended = ended
    figures.oldestMilliseconds = contents.values.lazy.map(\.acceptedMilliseconds).min()
    return figures
  }
}
