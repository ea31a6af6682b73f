import ApusCore
import ApusLoop
import ApusModel

// What an operator sees of a spool, and can do about it. The functions for any thread come first.

extension Spool {
  /// The upstreams of these apps have changed: what was held because of the old ones is tried at once, unless the
  /// operator has paused it.
  func upstreamsChanged(_ apps: Set<AppID>) {
    loop.perform { [unowned self] in
      for lane in lanes.values where apps.contains(lane.topic.app) {
        lane.machine.flush()
        if lane.alarm.configurationChanged() {
          changed(lane)
          sendDoubted(lane)
        }
        due(lane)
      }
    }
  }

  /// Calls `done` with figures, on the spool's thread.
  func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) {
    loop.perform { [unowned self] in done(lanes.values.map(\.figures)) }
  }

  /// Calls `done` with the counters of all topics, on the spool's thread.
  func reportCounters(_ done: @escaping @Sendable ([TopicCounters]) -> Void) {
    loop.perform { [unowned self] in done(rows.ledger.topicCounters) }
  }

  func obey(_ command: RelayCommand, _ app: AppID) {
    loop.perform { [unowned self] in
      for environment in Environment.allCases {
        let topic = RelayTopic(app: app, environment: environment)
        // What comes later is paused, too.
        if command == .pause { changed(lane(topic)) }
        guard let lane = knownLane(topic) else { continue }
        obey(command, lane)
        due(lane)
      }
    }
  }

  /// Carries out a command of the operator.
  private func obey(_ command: RelayCommand, _ lane: SpoolLane) {
    switch command {
    case .pause: lane.machine.pause()
    case .resume: lane.machine.resume()
    case .flush: lane.machine.flush()
    case .confirm: if lane.alarm.confirm() { reportDoubted(lane) }
    }
  }

  /// The operator says that the held tokens are bad: they go to the feedback list.
  private func reportDoubted(_ lane: SpoolLane) {
    for spooled in takeDoubted(lane) {
      rows.list(spooled, deadSinceMilliseconds: loop.wallMilliseconds)
      end(spooled, lane, .rejected(spooled.cause ?? .otherReason))
    }
  }
}
