package import ApusCore
package import ApusModel

/// What a relay keeps of one app in one environment.
package struct RelayFigures: Sendable, Hashable {
  package var app: AppID
  package var environment: Environment
  /// Notifications that upstream has not answered for good.
  package var count: Int
  /// Of their rows in the store.
  package var byteCount: Int
  /// Those of them whose tokens upstream takes for bad, while the configuration is in doubt.
  package var doubtedCount: Int
  /// Why none is sent; nil while they are.
  package var hold: RelayLane.Hold?
}
