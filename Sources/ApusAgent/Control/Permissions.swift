/// Which local users may do what.
struct Permissions: Sendable, Equatable {
  /// The user that the agent runs as. It and root may do everything.
  var agentUser: UInt32
  var grants: [(user: UInt32, grant: UserGrant)] = []
  /// The users that may read each topic that `agent.conf` forwards; nil: everyone.
  var readers: [String: Set<UInt32>?] = [:]

  func isAdministrator(_ user: UInt32) -> Bool { user == 0 || user == agentUser }

  /// Whether the user may register the topic at run time.
  func mayRegister(_ topic: String, _ user: UInt32) -> Bool {
    isAdministrator(user) || grants.contains { $0.user == user && $0.grant.covers(topic) }
  }

  /// Whether the user may read the topic's notifications and see its token.
  func mayRead(_ topic: String, _ user: UInt32) -> Bool {
    if mayRegister(topic, user) { return true }
    guard let readers = readers[topic] else { return false }
    return readers?.contains(user) ?? true
  }

  static func == (left: Permissions, right: Permissions) -> Bool {
    left.agentUser == right.agentUser && left.readers == right.readers
      && left.grants.elementsEqual(right.grants) { $0.user == $1.user && $0.grant == $1.grant }
  }
}

/// The topics that programs registered at run time, as lines `USER TOPIC` of a file.
struct Registrations: Sendable, Equatable {
  /// Topics of one user.
  static let perUser = 64

  private(set) var entries: [(user: UInt32, topic: String)] = []

  init() {}

  init(text: String) {
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 2, let user = UInt32(words[0]) else { continue }
      entries.append((user, String(words[1])))
    }
  }

  var text: String { entries.map { "\($0.user) \($0.topic)\n" }.joined() }

  /// In order, each once.
  var topics: [String] {
    var seen: Set<String> = []
    return entries.map(\.topic).filter { seen.insert($0).inserted }
  }

  /// - Returns: Whether the file changes.
  mutating func add(_ topic: String, user: UInt32) throws(AgentFault) -> Bool {
    if entries.contains(where: { $0.user == user && $0.topic == topic }) { return false }
    guard entries.count(where: { $0.user == user }) < Self.perUser else {
      throw AgentFault("a user can register at most \(Self.perUser) topics")
    }
    entries.append((user, topic))
    return true
  }

  /// - Parameter user: Nil: of every user.
  /// - Returns: Whether the file changes.
  mutating func remove(_ topic: String, user: UInt32?) -> Bool {
    let before = entries.count
    entries.removeAll { $0.topic == topic && (user == nil || $0.user == user) }
    return entries.count != before
  }

  static func == (left: Registrations, right: Registrations) -> Bool { left.text == right.text }
}
