/// The values of `apns-push-type`, each with its topic suffix.
///
/// Source: "Sending notification requests to APNs", the push-type list.
///
/// The raw values are on the wire (field 0x41 of the courier's notification) and on disk (the mailbox): a new push
/// type takes the next free number, whatever its place in the list. 0xff is taken: on disk it means no push type.
public enum PushType: UInt8, Sendable, CaseIterable, Hashable {
  case alert = 0
  case background = 1
  case complication = 2
  case controls = 3
  case fileprovider = 4
  case liveactivity = 5
  case location = 6
  case mdm = 7
  case pushtotalk = 8
  case voip = 9
  case widgets = 10

  /// The header's value, in lower case.
  public var name: StaticString {
    switch self {
    case .alert: "alert"
    case .background: "background"
    case .complication: "complication"
    case .controls: "controls"
    case .fileprovider: "fileprovider"
    case .liveactivity: "liveactivity"
    case .location: "location"
    case .mdm: "mdm"
    case .pushtotalk: "pushtotalk"
    case .voip: "voip"
    case .widgets: "widgets"
    }
  }

  /// The suffix that the topic of such a push must have.
  public var topicSuffix: TopicSuffix {
    switch self {
    case .alert, .background, .mdm: .none
    case .complication: .complication
    case .controls: .controls
    case .fileprovider: .fileProvider
    case .liveactivity: .liveActivity
    case .location: .locationQuery
    case .pushtotalk: .pushToTalk
    case .voip: .voip
    case .widgets: .widgets
    }
  }

  /// Reads a header's value.
  ///
  /// Apple's pages spell one value in three ways (`Liveactivity`, `liveactivity`, `LiveActivity`), so letter case is
  /// ignored.
  public init?(headerValue: Span<UInt8>) {
    for type in PushType.allCases where headerValue.equalsIgnoringCase(type.name) {
      self = type
      return
    }
    return nil
  }
}

/// The suffix of a topic after the bundle id: each suffix makes a topic of its own, with tokens of its own.
///
/// The raw values are inside device tokens, which providers keep for years, and on disk (keys of the mailbox, device
/// records): they never change their meaning. There is room for 16.
public enum TopicSuffix: UInt8, Sendable, CaseIterable, Hashable {
  case none = 0
  case complication = 1
  case controls = 2
  case fileProvider = 3
  case liveActivity = 4
  case locationQuery = 5
  case pushToTalk = 6
  case voip = 7
  case widgets = 8

  /// The text after the bundle id, with its leading full stop.
  public var text: StaticString {
    switch self {
    case .none: ""
    case .complication: ".complication"
    case .controls: ".push-type.controls"
    case .fileProvider: ".pushkit.fileprovider"
    case .liveActivity: ".push-type.liveactivity"
    case .locationQuery: ".location-query"
    case .pushToTalk: ".voip-ptt"
    case .voip: ".voip"
    case .widgets: ".push-type.widgets"
    }
  }

  /// The longest suffix that `topic` ends in; `.none` if it ends in none of them.
  public init(of topic: Span<UInt8>) {
    for suffix in TopicSuffix.allCases where suffix != .none && topic.endsWith(suffix.text) {
      self = suffix
      return
    }
    self = .none
  }
}
