/// The Live Activities of a device: what pushes and time do to them.
///
/// Has no clock: times are arguments, in Unix seconds. Keeps at most ``capacity`` activities, each with a history of
/// at most `LiveActivity.historyCapacity` entries.
package struct LiveActivities: Sendable, Equatable {
  /// How a push came to the device.
  package enum Route: Sendable, Hashable {
    /// With the app's push-to-start token.
    case startToken
    /// With the own token of the activity with this id.
    case activity(Int)
    /// Over the channel with this id.
    case channel(String)
    /// With the only token that the app has, for a device whose activities have none of their own: what does not start
    /// an activity is for the newest one that runs.
    case onlyToken
  }

  /// A change of an activity.
  package struct Change: Sendable, Hashable {
    package var id: Int
    package var kind: LiveActivity.Entry.Kind

    package init(_ id: Int, _ kind: LiveActivity.Entry.Kind) {
      self.id = id
      self.kind = kind
    }
  }

  /// Maximum number of activities, including those that are off the screen.
  package static let capacity = 8

  private var activities: [LiveActivity] = []
  private var lastID = 0

  package init() {}

  package subscript(id: Int) -> LiveActivity? { activities.first { $0.id == id } }

  /// All of them: those on the screen in their order there, then the dismissed ones, newest first.
  ///
  /// The highest relevance comes first. Of the same relevance, the first one that started comes first.
  package func sorted(at seconds: Int64) -> [LiveActivity] {
    let onScreen = activities.filter { $0.state(at: seconds) != .dismissed }
    let others = activities.filter { $0.state(at: seconds) == .dismissed }
    return onScreen.sorted {
      $0.relevanceScore == $1.relevanceScore
        ? ($0.startSeconds, $0.id) < ($1.startSeconds, $1.id)
        : $0.relevanceScore > $1.relevanceScore
    } + others.sorted { $0.id > $1.id }
  }

  /// When time changes something next; nil if it never does.
  package var nextChangeSeconds: Int64? { activities.compactMap(\.nextChangeSeconds).min() }

  // MARK: Changes

  /// Takes a push; `seconds` is the time of its arrival. Returns what changed, or throws why it was dropped.
  package mutating func receive(
    _ payload: Span<UInt8>, topic: String, over route: Route, strings: [String: String] = [:],
    at seconds: Int64
  ) throws(ActivityDrop) -> [Change] {
    let push = try ActivityPush(payload: payload, strings: strings)
    if case .start = push.event, route == .startToken || route == .onlyToken {
      return try start(push, topic: topic, at: seconds)
    }
    let targets = try targets(topic: topic, route, at: seconds)
    var changes: [Change] = []
    var firstDrop: ActivityDrop?
    for index in targets {
      do throws(ActivityDrop) {
        let kind = try activities[index].apply(push, at: seconds)
        changes.append(Change(activities[index].id, kind))
        changes += advance(index, to: seconds)
      } catch {
        firstDrop = firstDrop ?? error
      }
    }
    if changes.isEmpty, let firstDrop { throw firstDrop }
    return changes
  }

  /// Starts an activity, as an app or a push-to-start does.
  package mutating func start(
    _ push: ActivityPush, topic: String, at seconds: Int64
  ) throws(ActivityDrop) -> [Change] {
    try makeRoom(at: seconds)
    guard let activity = LiveActivity(id: lastID + 1, topic: topic, push, at: seconds) else {
      return []
    }
    lastID = activity.id
    activities.append(activity)
    return [Change(activity.id, .started)] + advance(activities.count - 1, to: seconds)
  }

  /// Forgets the oldest activity that is dismissed, or else the oldest that has ended.
  private mutating func makeRoom(at seconds: Int64) throws(ActivityDrop) {
    guard activities.count >= Self.capacity else { return }
    guard
      let index = activities.firstIndex(where: { $0.state(at: seconds) == .dismissed })
        ?? activities.firstIndex(where: { $0.state(at: seconds) == .ended })
    else { throw .tooMany }
    activities.remove(at: index)
  }

  private func targets(
    topic: String, _ route: Route, at seconds: Int64
  ) throws(ActivityDrop) -> [Int] {
    let found: [Int]
    switch route {
    case .startToken: throw .sentToStartToken
    case .activity(let id): found = activities.indices.filter { activities[$0].id == id }
    case .channel(let id):
      found = activities.indices.filter {
        activities[$0].topic == topic && activities[$0].source == .channel(id)
      }
    case .onlyToken:
      let own = activities.indices.filter { activities[$0].topic == topic }
      let newest = own.last { activities[$0].state(at: seconds) < .ended } ?? own.last
      found = newest.map { [$0] } ?? []
    }
    guard !found.isEmpty else { throw .noActivity }
    return found
  }

  /// Records what time has changed.
  package mutating func advance(to seconds: Int64) -> [Change] {
    activities.indices.flatMap { advance($0, to: seconds) }
  }

  private mutating func advance(_ index: Int, to seconds: Int64) -> [Change] {
    let id = activities[index].id
    return activities[index].advance(to: seconds).map { Change(id, $0) }
  }

  /// Takes all activities off the screen, as a person does.
  package mutating func dismissAll(at seconds: Int64) {
    for index in activities.indices { activities[index].dismiss(at: seconds) }
  }

  /// Forgets the activities of an app that was removed.
  package mutating func remove(topic: String) { activities.removeAll { $0.topic == topic } }
}
