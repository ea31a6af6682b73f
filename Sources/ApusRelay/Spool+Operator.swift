import ApusCore
import ApusLoop
import ApusModel

// What an operator sees of a spool, and can do about it. The functions for any thread come first.

extension Spool {
  /// The upstreams of these apps have changed: what was held because of the old ones is tried at once, unless the
  /// operator has paused it.
  func upstreamsChanged(_ apps: Set<AppID>) {
    loop.perform { [unowned self] in
      for topic in lanes.keys where apps.contains(topic.app) {
        lanes[topic]?.machine.flush()
        if lanes[topic]?.alarm.configurationChanged() == true {
          change(topic) { _ in }
          sendDoubted(topic)
        }
        due.insert(topic)
      }
    }
  }

  /// Calls `done` with figures, on the spool's thread.
  func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) {
    loop.perform { [unowned self] in done(lanes.map { $1.figures(of: $0) }) }
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
        if command == .pause { change(topic) { _ in } }
        obey(command, topic)
        due.insert(topic)
      }
    }
  }

  /// Carries out a command of the operator.
  private func obey(_ command: RelayCommand, _ topic: RelayTopic) {
    switch command {
    case .pause: lanes[topic]?.machine.pause()
    case .resume: lanes[topic]?.machine.resume()
    case .flush: lanes[topic]?.machine.flush()
    case .confirm: if lanes[topic]?.alarm.confirm() == true { reportDoubted(topic) }
    }
  }

  /// The operator says that the held tokens are bad: they go to the feedback list.
  private func reportDoubted(_ topic: RelayTopic) {
    for (order, spooled) in takeDoubted(topic) {
      rows.list(spooled, deadSinceMilliseconds: loop.wallMilliseconds)
      end(order, spooled, .rejected(spooled.cause ?? .otherReason))
    }
  }
}
