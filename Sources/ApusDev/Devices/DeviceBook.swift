import ApusModel
import Synchronization

/// Token owners and localized texts of apps, looked up for each push. May be used from any thread.
final class DeviceBook: Sendable {
  struct Owner: Sendable, Hashable {
    var device: String
    var language: String
  }

  private struct State {
    /// Device ids by token in lower case.
    var devices: [String: String] = [:]
    var languages: [String: String] = [:]
    /// The device tokens that replace tokens of other origin.
    var adopted: [Adoption: DeviceToken] = [:]
    /// By bundle id, then by language.
    var strings: [String: [String: StringTable]] = [:]
  }

  /// A `Localizable.strings` file as given, and its texts.
  struct StringTable: Sendable {
    var text: String
    var strings: [String: String]
  }

  /// A token as a provider sent it, with topic and environment.
  struct Adoption: Sendable, Hashable {
    var token: String
    var topic: String
    var environment: Environment
  }

  static let defaultLanguage = "en"
  /// Maximum number of remembered tokens; a provider may send any number of invented ones.
  private static let tokenCapacity = 100_000

  private let state = Mutex(State())

  // MARK: Tokens

  func owner(of token: String) -> Owner? {
    let token = token.lowercased()
    return state.withLock { state in
      state.devices[token].map { device in
        Owner(device: device, language: state.languages[device] ?? Self.defaultLanguage)
      }
    }
  }

  func add(_ token: String, of device: String) {
    let token = token.lowercased()
    state.withLock { state in
      if state.devices.count >= Self.tokenCapacity { state.devices = [:] }
      state.devices[token] = device
    }
  }

  func setLanguage(_ language: String, of device: String) {
    state.withLock { $0.languages[device] = language }
  }

  func forget(_ device: String) {
    state.withLock { state in
      state.languages[device] = nil
      state.devices = state.devices.filter { $0.value != device }
    }
  }

  func adopted(_ adoption: Adoption) -> DeviceToken? { state.withLock { $0.adopted[adoption] } }

  func adopt(_ adoption: Adoption, as token: DeviceToken) {
    state.withLock { state in
      if state.adopted.count >= Self.tokenCapacity { state.adopted = [:] }
      state.adopted[adoption] = token
    }
  }

  /// Forgets all replacements, because devices or their apps have changed.
  func forgetAdoptions() { state.withLock { $0.adopted = [:] } }

  // MARK: Strings

  /// The bundle id that a topic belongs to.
  static func bundle(of topic: String) -> String {
    String(
      decoding: topic.utf8.dropLast(suffix(of: topic).text.utf8CodeUnitCount), as: UTF8.self)
  }

  static func suffix(of topic: String) -> TopicSuffix {
    let bytes = Array(topic.utf8)
    return TopicSuffix(of: bytes.span)
  }

  /// The texts of an app in a language: for `de-AT` those of `de-AT`, else of `de`, else of the default language.
  func strings(of topic: String, _ language: String) -> [String: String] {
    let bundle = Self.bundle(of: topic)
    return state.withLock { state in
      guard let tables = state.strings[bundle] ?? state.strings[topic] else { return [:] }
      let base = language.prefix { $0 != "-" && $0 != "_" }
      return (tables[language] ?? tables[String(base)] ?? tables[Self.defaultLanguage])?.strings
        ?? [:]
    }
  }

  func setStrings(_ table: StringTable, topic: String, language: String) {
    state.withLock { $0.strings[topic, default: [:]][language] = table }
  }

  /// Topic, language and the number of texts of each table.
  func tables() -> [(topic: String, language: String, count: Int)] {
    state.withLock { state in
      state.strings.flatMap { topic, tables in
        tables.map { (topic, $0.key, $0.value.strings.count) }
      }.sorted { ($0.0, $0.1) < ($1.0, $1.1) }
    }
  }

  func table(_ topic: String, _ language: String) -> StringTable? {
    state.withLock { $0.strings[topic]?[language] }
  }
}
