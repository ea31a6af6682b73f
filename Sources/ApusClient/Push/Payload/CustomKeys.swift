import ApusWire

/// The app's own keys in a payload, next to `aps`, with any `Encodable` value.
///
/// A dictionary, a structure or a single value under a key becomes JSON as Foundation's `JSONEncoder` writes it with
/// default settings: `Date` as seconds since 2001, `Data` in base64, `URL` as a string. Numbers are exact, and integers
/// may have any width. Keys are sorted, so equal values give equal bytes. Source: Generating a remote notification.
public struct CustomKeys: Sendable, Hashable {
  private(set) var members: [String: EncodedValue] = [:]

  /// No keys.
  public init() {}

  /// All keys that `value` encodes. Throws if they are not an object, include `aps`, or cannot be written as JSON.
  public init(_ value: some Encodable) throws(PushRequestError) {
    guard case .object(let members) = try EncodedValue(encoding: value) else {
      throw PushRequestError(
        .invalidPayload,
        "custom keys must be an object: encode a structure or a dictionary, or name the key with `set`"
      )
    }
    try Self.check(members.keys)
    self.members = members
  }

  /// Sets or replaces one key. Throws if the key is `aps` or the value cannot be written as JSON.
  public mutating func set(_ key: String, _ value: some Encodable) throws(PushRequestError) {
    try Self.check([key])
    members[key] = try EncodedValue(encoding: value)
  }

  /// Removes a key.
  public mutating func remove(_ key: String) { members[key] = nil }

  /// Whether there are no keys.
  public var isEmpty: Bool { members.isEmpty }

  private static func check(_ keys: some Sequence<String>) throws(PushRequestError) {
    guard !keys.contains("aps") else {
      throw PushRequestError(
        .invalidPayload, "a custom key is named aps, which is reserved: choose another name")
    }
  }
}
