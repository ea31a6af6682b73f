import ApusDevice
import ApusWire
import Testing

/// Payloads are written by hand after Starting and updating Live Activities with ActivityKit push notifications.
@Suite("Live Activities of a device")
struct LiveActivityTests {
  static let topic = "com.example.app.push-type.liveactivity"
  static let channel = "dHN0LXNyY2gtY2hubA=="
  static let begin: Int64 = 1_700_000_000
  static let hour: Int64 = 3600

  /// A start at that time, with more members of `aps`.
  static func start(_ timestamp: Int64 = begin, _ more: String = "") -> String {
    """
    {"aps":{"timestamp":\(timestamp),"event":"start","content-state":{"score":"0:0"},
    "attributes-type":"MatchAttributes","attributes":{"home":"Basel"},
    "alert":{"title":"Kick-off","body":{"loc-key":"AT","loc-args":["Basel"]}}\(more)}}
    """
  }

  static func update(_ timestamp: Int64, _ more: String = "") -> String {
    #"{"aps":{"timestamp":\#(timestamp),"event":"update","content-state":{"score":"1:0"}\#(more)}}"#
  }

  static func end(_ timestamp: Int64, _ more: String = "") -> String {
    #"{"aps":{"timestamp":\#(timestamp),"event":"end"\#(more)}}"#
  }

  /// A device that has started activities with these additional members, one second after the other.
  static func device(_ starts: String...) throws -> LiveActivities {
    var device = LiveActivities()
    for (index, more) in starts.enumerated() {
      let at = begin + Int64(index)
      _ = try device.receive(start(at, more), over: .startToken, at: at)
    }
    return device
  }

  @Test("A start has all that the app was given")
  func started() throws {
    var device = LiveActivities()
    let changes = try device.receive(
      Self.start(Self.begin, #","relevance-score":75.5,"stale-date":1700000600.9"#),
      over: .startToken, strings: ["AT": "in %@"], at: Self.begin + 2)
    #expect(changes == [.init(1, .started)])
    let activity = try #require(device[1])
    #expect(activity.topic == Self.topic)
    #expect(activity.attributesType == "MatchAttributes")
    #expect(activity.attributes.text == #"{"home":"Basel"}"#)
    #expect(activity.contentState.text == #"{"score":"0:0"}"#)
    #expect(activity.source == .token)
    #expect(activity.startSeconds == Self.begin + 2)
    #expect(activity.timestampSeconds == Self.begin)
    #expect(activity.staleSeconds == Self.begin + 600)
    #expect(activity.relevanceScore == 75.5)
    #expect(activity.history.map(\.kind) == [.started])
    #expect(activity.history.first?.push?.title == "Kick-off")
    #expect(activity.history.first?.push?.body == "in Basel")
  }

  @Test(
    "A start says how updates come",
    arguments: [
      ("", ActivitySource.token), (#","input-push-token":1"#, .token),
      (#","input-push-channel":"dHN0LXNyY2gtY2hubA==""#, .channel(channel)),
    ])
  func source(more: String, expected: ActivitySource) throws {
    #expect(try Self.device(more)[1]?.source == expected)
  }

  @Test(
    "What is not a push to a Live Activity is dropped",
    arguments: [
      ("", ActivityDrop.notLiveActivity), ("[]", .notLiveActivity),
      (#"{"aps":7}"#, .notLiveActivity),
      (#"{"aps":{"alert":"Hello"}}"#, .notLiveActivity),
      (#"{"aps":{"event":"update","content-state":{}}}"#, .missing("timestamp")),
      (#"{"aps":{"event":"update","timestamp":"1","content-state":{}}}"#, .missing("timestamp")),
      (#"{"aps":{"event":"pause","timestamp":1}}"#, .unknownEvent("pause")),
      (#"{"aps":{"event":7,"timestamp":1}}"#, .unknownEvent("7")),
      (#"{"aps":{"event":"update","timestamp":1}}"#, .missing("content-state")),
      (
        #"{"aps":{"event":"update","timestamp":1,"content-state":"1:0"}}"#,
        .missing("content-state")
      ),
    ])
  func unreadable(payload: String, expected: ActivityDrop) throws {
    var device = try Self.device("")
    #expect(throws: expected) {
      try device.receive(payload, over: .activity(1), at: Self.begin + 1)
    }
  }

  @Test(
    "A start without a required key is dropped",
    arguments: ["content-state", "attributes-type", "attributes", "alert"])
  func incomplete(key: String) {
    var device = LiveActivities()
    let payload = Self.start().replacing("\"\(key)\":", with: "\"x-\(key)\":")
    #expect(payload != Self.start())
    #expect(throws: ActivityDrop.missing(key)) {
      try device.receive(payload, over: .startToken, at: Self.begin)
    }
    #expect(device.sorted(at: Self.begin).isEmpty)
  }

  @Test(
    "A push over the wrong way is dropped",
    arguments: [
      (update(begin + 1), LiveActivities.Route.startToken, ActivityDrop.sentToStartToken),
      (end(begin + 1), .startToken, .sentToStartToken),
      (start(begin + 1), .activity(1), .startNotToStartToken),
      (start(begin + 1), .channel(channel), .noActivity),
      (update(begin + 1), .activity(2), .noActivity),
      (update(begin + 1), .channel("other"), .noActivity),
    ])
  func wrongWay(payload: String, route: LiveActivities.Route, expected: ActivityDrop) throws {
    var device = try Self.device("")
    #expect(throws: expected) { try device.receive(payload, over: route, at: Self.begin + 1) }
    #expect(device[1]?.contentState.text == #"{"score":"0:0"}"#)
  }

  @Test("Of two pushes the later timestamp counts, whatever arrives last")
  func timestamps() throws {
    var device = try Self.device("")
    _ = try device.receive(Self.update(Self.begin + 60), over: .activity(1), at: Self.begin + 60)
    let older = Self.update(Self.begin + 59, #","relevance-score":9"#)
    #expect(throws: ActivityDrop.olderThan(timestampSeconds: Self.begin + 60)) {
      try device.receive(older, over: .activity(1), at: Self.begin + 61)
    }
    #expect(throws: ActivityDrop.olderThan(timestampSeconds: Self.begin + 60)) {
      try device.receive(Self.end(Self.begin + 59), over: .activity(1), at: Self.begin + 62)
    }
    // The same second is not older.
    let same = Self.update(Self.begin + 60, #","relevance-score":7"#)
    #expect(
      try device.receive(same, over: .activity(1), at: Self.begin + 63) == [.init(1, .updated)])
    let activity = try #require(device[1])
    #expect(activity.relevanceScore == 7)
    #expect(activity.state(at: Self.begin + 63) == .active)
    let drop = LiveActivity.Entry.Kind.dropped(.olderThan(timestampSeconds: Self.begin + 60))
    #expect(activity.history.map(\.kind) == [.started, .updated, drop, drop, .updated])
  }

  @Test("Content becomes stale at its date, and an update makes it current")
  func stale() throws {
    var device = try Self.device(#","stale-date":1700000600"#)
    #expect(device[1]?.state(at: Self.begin + 599) == .active)
    #expect(device[1]?.state(at: Self.begin + 600) == .stale)
    #expect(device.nextChangeSeconds == Self.begin + 600)
    #expect(device.advance(to: Self.begin + 599) == [])
    #expect(device.advance(to: Self.begin + 700) == [.init(1, .stale)])
    #expect(device.advance(to: Self.begin + 701) == [])
    #expect(device[1]?.history.last?.seconds == Self.begin + 600)
    // Without a date of its own it stays current until the activity ends by itself.
    _ = try device.receive(Self.update(Self.begin + 702), over: .activity(1), at: Self.begin + 702)
    #expect(device[1]?.state(at: Self.begin + 8 * Self.hour - 1) == .active)
    let late = Self.update(Self.begin + 703, #","stale-date":1700000600"#)
    #expect(
      try device.receive(late, over: .activity(1), at: Self.begin + 703)
        == [.init(1, .updated), .init(1, .stale)])
  }

  @Test("A clock that is set back makes stale content current, and ends nothing twice")
  func setBack() throws {
    var device = try Self.device(#","stale-date":1700000600"#)
    _ = device.advance(to: Self.begin + 600)
    #expect(device.advance(to: Self.begin) == [])
    #expect(device[1]?.state(at: Self.begin) == .active)
    #expect(device.advance(to: Self.begin + 600) == [.init(1, .stale)])
    #expect(device.advance(to: Self.begin + 9 * Self.hour) == [.init(1, .ended)])
    #expect(device.advance(to: Self.begin) == [])
    #expect(device[1]?.state(at: Self.begin) == .ended)
    #expect(device.advance(to: Self.begin + 9 * Self.hour) == [])
  }

  @Test(
    "An ended activity leaves the screen at its dismissal date, within four hours",
    arguments: [
      ("", 4 * hour), (#","dismissal-date":1700000400"#, 300), (#","dismissal-date":1"#, 0),
      (#","dismissal-date":1700000100"#, 0), (#","dismissal-date":1800000000"#, 4 * hour),
      (#","dismissal-date":9223372036854775807"#, 4 * hour),
    ])
  func dismissal(more: String, lingerSeconds: Int64) throws {
    var device = try Self.device("")
    let end = Self.begin + 100
    var expected: [LiveActivities.Change] = [.init(1, .ended)]
    if lingerSeconds == 0 { expected.append(.init(1, .dismissed)) }
    #expect(try device.receive(Self.end(end, more), over: .activity(1), at: end) == expected)
    let activity = try #require(device[1])
    #expect(activity.endSeconds == end)
    // Without a final state the last one stays.
    #expect(activity.contentState.text == #"{"score":"0:0"}"#)
    if lingerSeconds > 0 { #expect(activity.state(at: end + lingerSeconds - 1) == .ended) }
    #expect(activity.state(at: end + lingerSeconds) == .dismissed)
    #expect(throws: ActivityDrop.ended) {
      try device.receive(Self.update(end + 1), over: .activity(1), at: end + 1)
    }
  }

  @Test("An activity ends by itself after eight hours, and is on the screen for four more")
  func longest() throws {
    var device = try Self.device("")
    #expect(device.nextChangeSeconds == Self.begin + 8 * Self.hour)
    #expect(device[1]?.state(at: Self.begin + 8 * Self.hour - 1) == .active)
    #expect(device[1]?.state(at: Self.begin + 8 * Self.hour) == .ended)
    #expect(throws: ActivityDrop.ended) {
      let late = Self.begin + 8 * Self.hour
      return try device.receive(Self.update(late), over: .activity(1), at: late)
    }
    let end = Self.begin + 12 * Self.hour
    #expect(device[1]?.state(at: end - 1) == .ended)
    #expect(device.advance(to: end) == [.init(1, .ended), .init(1, .dismissed)])
    #expect(device.nextChangeSeconds == nil)
  }

  @Test("The highest relevance is first, then the first one that started")
  func order() throws {
    var device = try Self.device(
      "", #","relevance-score":1.5"#, "", #","relevance-score":-1"#, #","relevance-score":2"#)
    func ids() -> [Int] { device.sorted(at: Self.begin + 10).map(\.id) }
    #expect(ids() == [5, 2, 1, 3, 4])
    let raised = Self.update(Self.begin + 9, #","relevance-score":100"#)
    _ = try device.receive(raised, over: .activity(3), at: Self.begin + 9)
    #expect(ids() == [3, 5, 2, 1, 4])
    let over = Self.end(Self.begin + 9, #","dismissal-date":1,"relevance-score":100"#)
    _ = try device.receive(over, over: .activity(2), at: Self.begin + 9)
    #expect(ids() == [3, 5, 1, 4, 2])
  }

  @Test("A push over a channel is for every activity that listens to it")
  func channels() throws {
    let listening = #","input-push-channel":"\#(Self.channel)""#
    var device = try Self.device(listening, "", listening)
    let at = Self.begin + 10
    _ = try device.receive(Self.end(at), over: .activity(1), at: at)
    #expect(
      try device.receive(Self.update(at), over: .channel(Self.channel), at: at)
        == [.init(3, .updated)])
    #expect(device[2]?.contentState.text == #"{"score":"0:0"}"#)
    _ = try device.receive(Self.end(at), over: .channel(Self.channel), at: at)
    #expect(throws: ActivityDrop.ended) {
      try device.receive(Self.update(at + 1), over: .channel(Self.channel), at: at + 1)
    }
  }

  @Test("With one token for everything, an update is for the newest activity that runs")
  func onlyToken() throws {
    var device = LiveActivities()
    #expect(throws: ActivityDrop.noActivity) {
      try device.receive(Self.update(Self.begin), over: .onlyToken, at: Self.begin)
    }
    for _ in 1...2 {
      _ = try device.receive(Self.start(), over: .onlyToken, at: Self.begin)
    }
    for (payload, id, kind) in [
      (Self.update(Self.begin), 2, LiveActivity.Entry.Kind.updated),
      (Self.end(Self.begin), 2, .ended),
      (Self.update(Self.begin), 1, .updated), (Self.end(Self.begin), 1, .ended),
    ] {
      #expect(
        try device.receive(payload, over: .onlyToken, at: Self.begin) == [.init(id, kind)])
    }
    #expect(throws: ActivityDrop.ended) {
      try device.receive(Self.update(Self.begin), over: .onlyToken, at: Self.begin)
    }
  }

  @Test("Activities and their histories are bounded")
  func bounds() throws {
    var device = LiveActivities()
    for _ in 1...LiveActivities.capacity {
      _ = try device.receive(Self.start(), over: .startToken, at: Self.begin)
    }
    #expect(throws: ActivityDrop.tooMany) {
      try device.receive(Self.start(), over: .startToken, at: Self.begin)
    }
    // An ended activity makes room, but a dismissed one first.
    _ = try device.receive(Self.end(Self.begin), over: .activity(2), at: Self.begin)
    let dismissed = Self.end(Self.begin, #","dismissal-date":1"#)
    _ = try device.receive(dismissed, over: .activity(5), at: Self.begin)
    for gone in [5, 2] {
      _ = try device.receive(Self.start(), over: .startToken, at: Self.begin)
      #expect(device[gone] == nil)
      #expect(device.sorted(at: Self.begin).count == LiveActivities.capacity)
    }
    for second in 1...100 {
      let at = Self.begin + Int64(second)
      _ = try device.receive(Self.update(at), over: .activity(1), at: at)
    }
    #expect(device[1]?.history.count == LiveActivity.historyCapacity)
    #expect(device[1]?.history.last?.seconds == Self.begin + 100)
  }

  @Test("A person dismisses all, and a removed app has none")
  func cleared() throws {
    var device = try Self.device("", "")
    device.dismissAll(at: Self.begin + 5)
    #expect(
      device.sorted(at: Self.begin + 5).map { $0.state(at: Self.begin + 5) }
        == [.dismissed, .dismissed])
    #expect(device[1]?.endSeconds == Self.begin + 5)
    #expect(device.advance(to: Self.begin + 20 * Self.hour) == [])
    device.remove(topic: "com.example.other.push-type.liveactivity")
    #expect(device[2] != nil)
    device.remove(topic: Self.topic)
    #expect(device.sorted(at: Self.begin).isEmpty)
  }
}

extension LiveActivities {
  fileprivate mutating func receive(
    _ payload: String, over route: Route, strings: [String: String] = [:], at seconds: Int64
  ) throws -> [Change] {
    let bytes = Array(payload.utf8)
    return try receive(
      bytes.span, topic: LiveActivityTests.topic, over: route, strings: strings, at: seconds)
  }
}

extension JSONValue {
  fileprivate var text: String { String(decoding: bytes, as: UTF8.self) }
}
