package import ApusCore
import ApusModel
package import ApusWire

/// What `directory.conf` says about an app's upstream. It has no secrets; these are in ``UpstreamFiles``.
package struct UpstreamSettings: Sendable, Hashable {
  /// The id of a provider key, and the team that it belongs to upstream.
  package struct KeyName: Sendable, Hashable {
    package var id: ShortID
    package var team: ShortID
  }

  package var service: Upstream.Service
  /// Nil if the credential is a certificate.
  package var key: KeyName?
  /// The app's bundle id upstream; nil if it is the same there.
  package var bundleID: String?
  /// Without its password.
  package var proxy: Upstream.Proxy?
  package var spools: Bool
  /// How many notifications may go there in a second; nil for any number.
  package var perSecond: Int?

  init(service: Upstream.Service) {
    self.service = service
    spools = false
  }

  /// Reads the values of an app's section; nil if the app has no upstream.
  ///
  /// - Throws: What is wrong with which value.
  package init?(_ section: SectionFile.Section) throws(DirectoryProblem) {
    let given = section.values.map(\.key).filter { $0.hasPrefix("upstream") }
    for name in given where !Self.names.contains(name) {
      throw DirectoryProblem(
        "unknown value \(name); those of an upstream are \(Self.names.joined(separator: ", "))")
    }
    guard let service = section["upstream"] else {
      guard let name = given.first else { return nil }
      throw DirectoryProblem(
        "\(name) without upstream: add upstream = \(Upstream.Service.form), or remove it")
    }
    self.init(service: try Upstream.Service(service))
    key = try Self.key(section)
    if let topic = section["upstream-topic"] { bundleID = try Self.bundleID(topic) }
    proxy = try Self.proxy(section)
    switch section["upstream-spool"] ?? "off" {
    case "on": spools = true
    case "off": spools = false
    case let text: throw DirectoryProblem("upstream-spool must be on or off, not \"\(text)\"")
    }
    if let text = section["upstream-per-second"] { perSecond = try Self.rate(text) }
  }

  private static func key(_ section: SectionFile.Section) throws(DirectoryProblem) -> KeyName? {
    func id(_ name: String) throws(DirectoryProblem) -> ShortID? {
      guard let text = section[name] else { return nil }
      guard let id = ShortID(text) else {
        throw DirectoryProblem("\(name) must have 10 letters and digits, not \"\(text)\"")
      }
      return id
    }
    switch (try id("upstream-key-id"), try id("upstream-team")) {
    case (let id?, let team?): return KeyName(id: id, team: team)
    case (nil, nil): return nil
    case (_?, nil):
      throw DirectoryProblem(
        "upstream-key-id needs upstream-team, the id of the key's team upstream; to use a "
          + "certificate, remove it")
    case (nil, _?):
      throw DirectoryProblem(
        "upstream-team needs upstream-key-id, the id of the provider key; to use a certificate, "
          + "remove it")
    }
  }

  /// A bundle id as it may be in `apns-topic`.
  static func bundleID(_ text: String) throws(DirectoryProblem) -> String {
    guard 1...Limits.topicBytes ~= text.utf8.count,
      text.utf8.allSatisfy({ 0x21...0x7e ~= $0 && $0 != UInt8(ascii: ",") })
    else {
      throw DirectoryProblem("upstream-topic must be a bundle id such as com.example.app")
    }
    return text
  }

  private static func proxy(
    _ section: SectionFile.Section
  ) throws(DirectoryProblem) -> Upstream.Proxy? {
    let user = section["upstream-proxy-user"]
    guard let text = section["upstream-proxy"] else {
      if user == nil { return nil }
      throw DirectoryProblem(
        "upstream-proxy-user without upstream-proxy: add upstream-proxy = HOST:PORT, or remove it")
    }
    return try Upstream.Proxy(address: text, user: user)
  }

  /// Notifications a second.
  package static func rate(_ text: String) throws(DirectoryProblem) -> Int {
    guard let rate = Int(text), 1...Limits.relayPerSecond ~= rate else {
      throw DirectoryProblem(
        "upstream-per-second must be a number from 1 to \(Limits.relayPerSecond), not \"\(text)\"")
    }
    return rate
  }

  /// As in the administration API.
  package var json: JSONValue {
    .members([
      "service": .string(service.text), "key_id": (key?.id.text).map(JSONValue.string),
      "team": (key?.team.text).map(JSONValue.string), "topic": bundleID.map(JSONValue.string),
      "proxy": (proxy?.address).map(JSONValue.string),
      "proxy_user": (proxy?.user).map(JSONValue.string), "spool": .bool(spools),
      "per_second": perSecond.map { .integer(Int64($0)) },
    ])
  }

  /// The names of its values in `directory.conf`.
  static var names: [String] { Self(service: .apple).values.map(\.name) }

  /// As in `directory.conf`; nil for what has no line there.
  var values: [(name: String, value: String?)] {
    [
      ("upstream", service.text), ("upstream-key-id", key?.id.text),
      ("upstream-team", key?.team.text), ("upstream-topic", bundleID),
      ("upstream-proxy", proxy?.address), ("upstream-proxy-user", proxy?.user),
      ("upstream-spool", spools ? "on" : nil), ("upstream-per-second", perSecond.map(String.init)),
    ]
  }
}
