import ApusCore
import ApusLoop
import ApusModel

// What the operator sees of the spool, and may have done. On any thread.

extension Spool {
  /// The upstreams of these apps have changed: what was held because of the old ones is tried at once,
  /// unless the operator has paused it.
  func upstreamsChanged(_ apps: Set<AppID>) {
    loop.perform { [unowned self] in
      for topic in lanes.keys where apps.contains(topic.app) {
        lanes[topic]?.machine.flush()
        if lanes[topic]?.alarm.configurationChanged() == true { sendDoubted(topic) }
        due.insert(topic)
      }
    }
  }

  /// Calls `done` with figures, on the spool's thread.
  func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) {
    loop.perform { [unowned self] in done(lanes.map { $1.figures(of: $0) }) }
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
}
