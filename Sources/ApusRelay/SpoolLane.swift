import ApusCore
import ApusModel

/// The notifications of one topic in the spool: which is sent when (`RelayLane`), and what is in memory of them.
struct SpoolLane {
  var machine: RelayLane
  var alarm = ConfigurationAlarm()
  /// What the machine knows, by order of acceptance.
  var contents: [UInt64: SpooledNotification] = [:]
  /// Those whose tokens upstream takes for bad, while the configuration is in doubt.
  var doubted: [UInt64] = []
  var totals: SpoolTotals

  /// - Parameter totals: What the store has.
  init(_ totals: SpoolTotals) {
    self.totals = totals
    machine = RelayLane(storedCount: totals.count)
  }

  /// The notifications in memory whose time is over.
  func over(nowMilliseconds: Int64, ageSeconds: Int64) -> [UInt64: SpooledNotification] {
    contents.filter {
      $0.value.isOver(nowMilliseconds: nowMilliseconds, ageSeconds: ageSeconds)
    }
  }
}
