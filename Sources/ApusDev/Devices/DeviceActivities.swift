import ApusDevice
import ApusModel
import ApusWire

/// The Live Activities of a virtual device, and the connections that give each its own token. Confined to the loop of
/// the devices.
struct DeviceActivities {
  private var board = LiveActivities()
  private var environments: [Int: Environment] = [:]
  /// A connection has an identity of its own: the service issues an identity one token for a topic, and that of the
  /// device starts activities.
  private var linksByID: [Int: DeviceLink] = [:]
  private var closing: Set<Int> = []

  /// Those of activities, also of past ones until they are closed.
  var links: [DeviceLink] { Array(linksByID.values) }

  /// When time changes something next; nil if it never does.
  var nextChangeSeconds: Int64? { board.nextChangeSeconds }

  func countOnScreen(at seconds: Int64) -> Int {
    board.sorted(at: seconds).count { $0.state(at: seconds) != .dismissed }
  }

  // MARK: Changes

  mutating func receive(
    _ notification: DeviceLink.ReceivedNotification, over route: LiveActivities.Route,
    strings: [String: String], at seconds: Int64
  ) throws(ActivityDrop) -> [LiveActivities.Change] {
    let changes = try board.receive(
      notification.payload.span, topic: notification.topic, over: route, strings: strings,
      at: seconds)
    for change in changes where change.kind == .started {
      environments[change.id] = notification.environment
    }
    return changes
  }

  /// An app starts one itself. Returns its id.
  mutating func start(
    _ push: ActivityPush, topic: String, in environment: Environment, at seconds: Int64
  ) throws(ActivityDrop) -> Int? {
    let id = try board.start(push, topic: topic, at: seconds).first?.id
    if let id { environments[id] = environment }
    return id
  }

  /// Returns whether time has changed something.
  mutating func advance(to seconds: Int64) -> Bool { !board.advance(to: seconds).isEmpty }

  mutating func dismissAll(at seconds: Int64) { board.dismissAll(at: seconds) }

  mutating func remove(app bundle: String) {
    board.remove(topic: "\(bundle)\(TopicSuffix.liveActivity.text)")
  }

  // MARK: Connections

  subscript(id: Int) -> LiveActivity? { board[id] }

  func environment(_ id: Int) -> Environment? { environments[id] }

  mutating func add(_ link: DeviceLink, _ id: Int) { linksByID[id] = link }

  mutating func forget(_ id: Int) {
    linksByID[id] = nil
    closing.remove(id)
  }

  /// Says which topic each connection has: none if the activity is off the screen, so that its token becomes invalid.
  func sayTopics(notifications: Bool, at seconds: Int64) {
    for (id, link) in linksByID {
      let topics = isPast(id, at: seconds) ? [] : board[id].map { [$0.topic] } ?? []
      link.setTopics(enabled: notifications ? topics : [], ignored: notifications ? [] : topics)
    }
  }

  private func isPast(_ id: Int, at seconds: Int64) -> Bool {
    (board[id]?.state(at: seconds) ?? .dismissed) == .dismissed
  }

  /// The connections of activities that are off the screen, each only once.
  mutating func takePast(at seconds: Int64) -> [(id: Int, link: DeviceLink)] {
    environments = environments.filter { board[$0.key] != nil }
    let past = linksByID.filter { !closing.contains($0.key) && isPast($0.key, at: seconds) }
    closing.formUnion(past.keys)
    return past.map { ($0.key, $0.value) }
  }

  // MARK: Channels

  /// The channels of the activities that run, by topic.
  func channels(in environment: Environment, at seconds: Int64) -> [String: Set<String>] {
    var found: [String: Set<String>] = [:]
    for activity in board.sorted(at: seconds) where environments[activity.id] == environment {
      guard case .channel(let id) = activity.source, activity.state(at: seconds) < .ended else {
        continue
      }
      found[activity.topic, default: []].insert(id)
    }
    return found
  }

  // MARK: Tokens

  /// The token of an activity; nil if it has none.
  func token(_ id: Int) -> DeviceToken? {
    guard !closing.contains(id), let activity = board[id] else { return nil }
    return linksByID[id]?.tokens[activity.topic]
  }

  /// The token of the newest activity that runs.
  func newestToken(
    topic: String, _ environment: Environment, at seconds: Int64
  ) -> DeviceToken? {
    let running = board.sorted(at: seconds).filter { activity in
      activity.topic == topic && environments[activity.id] == environment
        && activity.state(at: seconds) < .ended
    }
    return running.max { $0.id < $1.id }.flatMap { token($0.id) }
  }

  // MARK: As JSON

  /// The members of the list of tokens.
  func writeTokens(to writer: inout JSONWriter) {
    for id in linksByID.keys.sorted() {
      guard let token = token(id), let activity = board[id] else { continue }
      writer.beginObject()
      writer.text("topic", activity.topic)
      writer.text("environment", environments[id]?.name)
      writer.text("token", token.hex)
      writer.integer("activity", Int64(id))
      writer.endObject()
    }
  }

  /// The member `activities`.
  func write(to writer: inout JSONWriter, at seconds: Int64) {
    writer.key("activities")
    writer.beginArray()
    for activity in board.sorted(at: seconds) {
      activity.write(
        to: &writer, environment: environments[activity.id], token: token(activity.id), at: seconds)
    }
    writer.endArray()
  }
}

extension LiveActivity {
  fileprivate func write(
    to writer: inout JSONWriter, environment: Environment?, token: DeviceToken?, at seconds: Int64
  ) {
    writer.beginObject()
    writer.integer("id", Int64(id))
    writer.text("topic", topic)
    writer.text("environment", environment?.name)
    writer.text("state", state(at: seconds).rawValue)
    writer.text("token", token?.hex)
    if case .channel(let channel) = source {
      writer.text("channel", channel)
    } else {
      writer.text("channel", nil)
    }
    writer.text("attributesType", attributesType)
    writer.key("attributes")
    writer.value(attributes)
    writer.key("contentState")
    writer.value(contentState)
    writer.key("relevance")
    writer.number(relevanceScore)
    writer.integer("timestamp", timestampSeconds)
    writer.integer("staleDate", staleSeconds)
    writer.integer("startedAtSeconds", startSeconds)
    writer.integer("endedAtSeconds", endSeconds)
    writer.integer("dismissedAtSeconds", dismissalDueSeconds)
    writer.key("history")
    writer.beginArray()
    for entry in history { entry.write(to: &writer) }
    writer.endArray()
    writer.endObject()
  }
}

extension LiveActivity.Entry {
  fileprivate func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("kind", kind.name)
    writer.integer("atSeconds", seconds)
    writer.integer("timestamp", push?.timestampSeconds)
    writer.key("contentState")
    writer.value(push?.contentState ?? .null)
    writer.text("title", push?.title)
    writer.text("body", push?.body)
    if case .dropped(let drop) = kind {
      writer.text("reason", drop.description)
    } else {
      writer.text("reason", nil)
    }
    writer.endObject()
  }
}
