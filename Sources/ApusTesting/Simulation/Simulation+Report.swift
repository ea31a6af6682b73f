import ApusCore

extension Simulation {
  package struct Report: Sendable {
    package var seed: UInt64
    package var hash: UInt64
    package var simulatedSeconds: Int
    package var events: UInt64
    package var sent: Int
    package var accepted: Int
    package var delivered: Int
    /// Notifications sent while the disk was full that may be stored, were accepted, and never arrived.
    package var undeliveredWhileFull = 0
    /// How often providers got 503 while the disk was full.
    package var refusedWhileFull = 0
    /// Notifications sent after that and accepted.
    package var acceptedAfterFull = 0
    package var crashes: Int
    package var stops: Int
    /// How often another node has taken over, and how many connections between nodes there were.
    package var takeOvers: Int
    package var links: Int
    package var diskFaults: Int
    /// Broadcasts that providers sent, those that were accepted, and how often one arrived at a device.
    package var broadcastsSent: Int
    package var broadcastsAccepted: Int
    package var broadcastsDelivered: Int
    /// Notifications for upstream, those that it got, and how often one was sent there again after a crash.
    package var relayed = 0
    package var relayedReceived = 0
    package var relayedRepeated = 0
    /// How often a device became dormant, and how often one was woken.
    package var dormant: UInt64
    package var woken: UInt64
    /// The broken laws; empty for a clean run.
    package var violations: [SimulationViolation]
    package var trace: [String]
  }

  var report: Report {
    let dormancy = parts.reduce(Dormancy()) { $0 + $1.server.dormancy }
    return Report(
      seed: options.seed, hash: trace.hash, simulatedSeconds: Int(timeline.now / Timeline.second),
      events: timeline.eventCount, sent: oracle.sent.count, accepted: oracle.acceptedCount,
      delivered: oracle.deliveredCount, crashes: crashCount,
      stops: parts.reduce(0) { $0 + $1.server.stopCount },
      takeOvers: takeOverCount, links: cluster?.endCount ?? 0,
      diskFaults: diskFaultCount, broadcastsSent: broadcasts.oracle.sent.count,
      broadcastsAccepted: broadcasts.oracle.acceptedCount,
      broadcastsDelivered: broadcasts.oracle.deliveredCount, dormant: dormancy.fallen,
      woken: dormancy.woken, violations: oracle.violations, trace: trace.lines)
  }
}
