package import ApusModel

/// What a relay keeps of one app in one environment, and how many notifications ended how since the service started.
package struct RelayFigures: Sendable, Hashable {
  package var app: AppID
  package var environment: Environment
  /// Notifications that upstream has not answered for good.
  package var count = 0
  /// Of their rows in the store.
  package var byteCount = 0
  /// Those of them whose tokens upstream takes for bad, while the configuration is in doubt.
  package var doubtedCount = 0
  /// Why none is sent; nil while they are.
  package var hold: RelayLane.Hold?
  package var ended = RelayEndings()

  package init(app: AppID, environment: Environment) {
    self.app = app
    self.environment = environment
  }
}

/// How many notifications ended how.
package struct RelayEndings: Sendable, Hashable {
  package var accepted: UInt64 = 0
  /// Rejected for good: a bad token, or something in the notification.
  package var rejected: UInt64 = 0
  /// The token was dead, as upstream said for this one or within a day before.
  package var dead: UInt64 = 0
  /// Expired, or too old.
  package var expired: UInt64 = 0
  /// Sent again although upstream may have accepted them; not an end.
  package var repeated: UInt64 = 0

  package init() {}
}

/// What an operator may have a relay do about an app.
package enum RelayCommand: String, Sendable, CaseIterable {
  /// Send nothing more.
  case pause
  /// Go on.
  case resume
  /// Try at once what waits for a later attempt.
  case flush
  /// The tokens that upstream takes for bad are bad: report them.
  case confirm
}
