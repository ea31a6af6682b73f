package import ApusWire

/// A Live Activity on a device.
///
/// Times are Unix seconds. An activity ends with a push, or by itself eight hours after its start. Then it stays on the
/// lock screen until its dismissal date, or for four hours. Source: Starting and updating Live Activities with
/// ActivityKit push notifications; Displaying live data with Live Activities.
package struct LiveActivity: Sendable, Equatable {
  /// In the order of a life.
  package enum State: String, Sendable, Comparable {
    case active
    /// The content is outdated, and the activity waits for an update.
    case stale
    /// Pushes no longer change it, but it is still on the screen.
    case ended
    /// It is not on the screen.
    case dismissed

    private var rank: Int {
      switch self {
      case .active: 0
      case .stale: 1
      case .ended: 2
      case .dismissed: 3
      }
    }

    package static func < (one: State, other: State) -> Bool { one.rank < other.rank }
  }

  /// An event of its history.
  package struct Entry: Sendable, Equatable {
    package enum Kind: Sendable, Hashable {
      case started, updated, stale, ended, dismissed
      case dropped(ActivityDrop)

      /// The name in output.
      package var name: String {
        switch self {
        case .started: "started"
        case .updated: "updated"
        case .stale: "stale"
        case .ended: "ended"
        case .dismissed: "dismissed"
        case .dropped: "dropped"
        }
      }
    }

    package var seconds: Int64
    package var kind: Kind
    /// The push; nil if none caused it.
    package var push: ActivityPush?
  }

  /// Maximum number of entries; the oldest go first.
  package static let historyCapacity = 20
  /// How long an activity runs at most.
  package static let longestSeconds: Int64 = 8 * 3600
  /// How long it stays on the screen at most, once it has ended.
  package static let lingerSeconds: Int64 = 4 * 3600

  /// Counts the activities of a device from 1.
  package let id: Int
  /// The app's topic for Live Activities.
  package let topic: String
  package let attributesType: String
  package let attributes: JSONValue
  package let source: ActivitySource
  package let startSeconds: Int64
  package private(set) var contentState: JSONValue
  package private(set) var timestampSeconds: Int64
  package private(set) var staleSeconds: Int64?
  /// 0 if the last push has none.
  package private(set) var relevanceScore: Double
  /// When it ended; nil while it runs.
  package private(set) var endSeconds: Int64?
  /// Oldest first.
  package private(set) var history: [Entry] = []
  private var dismissalSeconds: Int64?
  private var isDismissed = false
  /// The state that the history has reached.
  private var toldState = State.active

  /// Nil if the push is not a start.
  init?(id: Int, topic: String, _ push: ActivityPush, at seconds: Int64) {
    guard case .start(let type, let attributes, let source) = push.event else { return nil }
    self.id = id
    self.topic = topic
    self.attributesType = type
    self.attributes = attributes
    self.source = source
    startSeconds = seconds
    contentState = push.contentState ?? .null
    timestampSeconds = push.timestampSeconds
    staleSeconds = push.staleSeconds
    relevanceScore = push.relevanceScore ?? 0
    add(.started, push, at: seconds)
  }

  // MARK: Times

  private var endDueSeconds: Int64 { endSeconds ?? startSeconds + Self.longestSeconds }

  /// When it leaves the screen, if nothing changes.
  package var dismissalDueSeconds: Int64 {
    let end = endDueSeconds
    let latest = end + Self.lingerSeconds
    return dismissalSeconds.map { min(max($0, end), latest) } ?? latest
  }

  package func state(at seconds: Int64) -> State {
    if isDismissed || seconds >= dismissalDueSeconds { return .dismissed }
    if endSeconds != nil || seconds >= endDueSeconds { return .ended }
    if let staleSeconds, seconds >= staleSeconds { return .stale }
    return .active
  }

  /// When time changes the state next; nil if it never does.
  var nextChangeSeconds: Int64? {
    if toldState == .active, let staleSeconds, staleSeconds < endDueSeconds { return staleSeconds }
    if toldState < .ended { return endDueSeconds }
    return toldState == .ended ? dismissalDueSeconds : nil
  }

  /// Records what time has changed. Returns the kinds of the new entries.
  mutating func advance(to seconds: Int64) -> [Entry.Kind] {
    let state = state(at: seconds)
    var kinds: [Entry.Kind] = []
    if toldState == .active, state >= .stale, let staleSeconds, staleSeconds < endDueSeconds {
      kinds.append(.stale)
      add(.stale, nil, at: max(staleSeconds, startSeconds))
    }
    if toldState < .ended, state >= .ended {
      let end = endDueSeconds
      kinds.append(.ended)
      add(.ended, nil, at: end)
      endSeconds = end
    }
    if toldState < .dismissed, state == .dismissed {
      kinds.append(.dismissed)
      add(.dismissed, nil, at: dismissalDueSeconds)
      isDismissed = true
    }
    // A clock that was set back makes stale content current again.
    toldState = state
    return kinds
  }

  // MARK: Changes

  mutating func apply(_ push: ActivityPush, at seconds: Int64) throws(ActivityDrop) -> Entry.Kind {
    if let drop = drop(push, at: seconds) {
      add(.dropped(drop), push, at: seconds)
      throw drop
    }
    timestampSeconds = push.timestampSeconds
    contentState = push.contentState ?? contentState
    staleSeconds = push.staleSeconds
    relevanceScore = push.relevanceScore ?? 0
    guard case .end(let dismissal) = push.event else {
      toldState = .active
      add(.updated, push, at: seconds)
      return .updated
    }
    endSeconds = seconds
    dismissalSeconds = dismissal
    toldState = .ended
    add(.ended, push, at: seconds)
    return .ended
  }

  private func drop(_ push: ActivityPush, at seconds: Int64) -> ActivityDrop? {
    if state(at: seconds) >= .ended { return .ended }
    if case .start = push.event { return .startNotToStartToken }
    return push.timestampSeconds < timestampSeconds
      ? .olderThan(timestampSeconds: timestampSeconds) : nil
  }

  /// Takes it off the screen, as a person does.
  mutating func dismiss(at seconds: Int64) {
    guard !isDismissed else { return }
    if endSeconds == nil { endSeconds = min(seconds, endDueSeconds) }
    isDismissed = true
    toldState = .dismissed
    add(.dismissed, nil, at: seconds)
  }

  private mutating func add(_ kind: Entry.Kind, _ push: ActivityPush?, at seconds: Int64) {
    history.append(Entry(seconds: seconds, kind: kind, push: push))
    if history.count > Self.historyCapacity { history.removeFirst() }
  }
}
