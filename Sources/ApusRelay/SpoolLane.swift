import ApusCore
import ApusModel

/// The notifications of one topic in the spool: which is sent when (`RelayLane`), and what is in memory of them.
struct SpoolLane {
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

  /// - Parameter totals: What the store has.
  init(_ totals: SpoolTotals) {
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

  func figures(of topic: RelayTopic) -> RelayFigures {
    var figures = RelayFigures(app: topic.app, environment: topic.environment)
    (figures.count, figures.byteCount) = (totals.count, totals.byteCount)
    (figures.doubtedCount, figures.hold) = (doubted.count, machine.hold)
    figures.ended = ended
    figures.oldestMilliseconds = contents.values.lazy.map(\.acceptedMilliseconds).min()
    return figures
  }
}
