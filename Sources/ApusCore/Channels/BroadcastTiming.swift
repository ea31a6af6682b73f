package import ApusModel

/// When a broadcast goes to a device that is connected and has room for it.
package enum BroadcastTiming: Sendable, Hashable {
  case now
  /// When the device's state, its filter or the use of its radio changes.
  case later
}

extension Device {
  /// Judges as `DeviceSession+Power` does for notifications. A broadcast has no burst of its own: a later one replaces
  /// it, and the device's next keep-alive takes it along.
  package func timing(
    ofBroadcast priority: Priority, on topic: TopicKey, radioIsInUse: Bool
  ) -> BroadcastTiming {
    guard let session, let registered = registration[topic], registered.state.flows else {
      return .later
    }
    let isAtOnce =
      switch session.power {
      case .active: true
      case .idle: radioIsInUse && priority != .whenActive
      case .lowPower: false
      }
    return isAtOnce || priority == .immediate && registered.state == .enabled ? .now : .later
  }

  /// Whether the device's filter lists the topic, so that it may subscribe to channels under it.
  package func lists(_ topic: TopicKey) -> Bool {
    guard let state = registration[topic]?.state else { return false }
    return state != .ignored && state != .unlisted
  }
}
