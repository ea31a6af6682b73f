/// A rule that a push is checked against before it is sent. Breaking it makes a service reject the push, or accept it
/// without the intended effect.
///
/// Configuration, scripts and documents use the raw values: they never change.
public enum LintRule: String, Sendable, Hashable, CaseIterable {
  // Causes rejection by the service.
  case payloadEmpty = "payload-empty"
  case payloadNotJSON = "payload-not-json"
  case payloadTooLarge = "payload-too-large"
  case apsMissing = "aps-missing"
  case backgroundPriority = "background-priority"
  case topicSuffix = "topic-suffix"
  case collapseIDTooLong = "collapse-id-too-long"

  // Push type and payload contradict each other.
  case pushTypeMissing = "push-type-missing"
  case topicOfOtherType = "topic-of-other-type"
  case backgroundVisible = "background-visible"
  case backgroundNotSilent = "background-without-content-available"
  case alertInvisible = "alert-invisible"
  case mdmKey = "mdm-key"
  case shownByApp = "shown-by-app"
  case contentChanged = "content-changed"
  case pushToTalkHeaders = "pushtotalk-headers"
  case voipStored = "voip-stored"
  case urgentPriority = "urgent-priority"

  // Keys that nothing reads.
  case keyOutsideAPS = "key-outside-aps"
  case keyOutsideAlert = "key-outside-alert"
  case keyMisspelt = "key-misspelt"
  case keyUnknown = "key-unknown"
  case keyRepeated = "key-repeated"
  case valueType = "value-type"

  // Values without the intended effect.
  case alertEmpty = "alert-empty"
  case flagNotOne = "flag-not-one"
  case badgeValue = "badge-value"
  case interruptionLevel = "interruption-level"
  case relevanceScore = "relevance-score"
  case soundValue = "sound-value"
  case soundOfPassive = "sound-of-passive"
  case argumentsWithoutKey = "arguments-without-key"
  case mutableWithoutAlert = "mutable-without-alert"
  case millisecondsForSeconds = "milliseconds-for-seconds"
  case expirationPast = "expiration-past"

  // Live Activities.
  case liveActivityTimestamp = "liveactivity-timestamp"
  case liveActivityEvent = "liveactivity-event"
  case liveActivityState = "liveactivity-state"
  case liveActivityStart = "liveactivity-start"
  case liveActivityKey = "liveactivity-key"
  case liveActivityDismissal = "liveactivity-dismissal"

  /// The effect on a push that breaks the rule.
  public enum Severity: String, Sendable, Hashable, CaseIterable {
    /// The service rejects it.
    case error
    /// The service accepts it, but it is dropped or delayed, or part of it is not shown.
    case warning
    /// It works, but may not be what was intended.
    case note
  }

  public var severity: Severity {
    switch self {
    case .payloadEmpty, .payloadNotJSON, .payloadTooLarge, .apsMissing, .backgroundPriority,
      .topicSuffix, .collapseIDTooLong:
      .error
    case .pushTypeMissing, .keyUnknown, .voipStored, .soundOfPassive, .shownByApp: .note
    default: .warning
    }
  }

  /// The source of the rule: the title of Apple's page, or of a standard.
  public var source: String {
    switch self {
    case .payloadEmpty, .payloadTooLarge, .backgroundPriority:
      "Handling notification responses from APNs"
    case .payloadNotJSON, .keyRepeated: "RFC 8259"
    case .topicSuffix, .topicOfOtherType, .pushTypeMissing, .collapseIDTooLong, .expirationPast,
      .shownByApp, .urgentPriority:
      "Sending notification requests to APNs"
    case .backgroundVisible, .backgroundNotSilent: "Pushing background updates to your App"
    case .alertInvisible: "Binary Provider API, priority; Pushing background updates to your App"
    case .mdmKey: "Device management: Sending MDM commands to a device"
    case .contentChanged: "Updating widgets with WidgetKit push notifications"
    case .pushToTalkHeaders: "Push to Talk"
    case .voipStored: "Responding to VoIP notifications from PushKit"
    case .mutableWithoutAlert: "Modifying content in newly delivered notifications"
    case .liveActivityTimestamp, .liveActivityEvent, .liveActivityState, .liveActivityStart,
      .liveActivityKey, .liveActivityDismissal:
      "Starting and updating Live Activities with ActivityKit push notifications"
    case .apsMissing, .keyOutsideAPS, .keyOutsideAlert, .keyMisspelt, .keyUnknown, .valueType,
      .alertEmpty, .flagNotOne, .badgeValue, .interruptionLevel, .relevanceScore, .soundValue,
      .soundOfPassive, .argumentsWithoutKey, .millisecondsForSeconds:
      "Generating a remote notification"
    }
  }
}

/// A violation of a rule at one place in a push.
public struct LintFinding: Sendable, Hashable, CustomStringConvertible {
  public var rule: LintRule
  /// The place: the path of a key in the payload (`aps.alert.title`), or the name of a header field.
  public var place: String
  /// What is wrong and its effect, as a sentence without the full stop.
  public var problem: String
  /// The fix, as a sentence.
  public var remedy: String

  public init(_ rule: LintRule, at place: String, _ problem: String, remedy: String) {
    self.rule = rule
    self.place = place
    self.problem = problem
    self.remedy = remedy
  }

  public var severity: LintRule.Severity { rule.severity }

  /// One line: `warning: aps.badge: is a string and is ignored. Write a number. [value-type]`
  public var description: String {
    "\(severity.rawValue): \(place): \(problem). \(remedy) [\(rule.rawValue)]"
  }
}
