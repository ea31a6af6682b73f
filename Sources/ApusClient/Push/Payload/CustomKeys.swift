import ApusWire

/// What an app puts into a payload for itself: keys beside `aps`, of any `Encodable` value.
///
/// "Generating a remote notification": "you can add your own custom keys". A dictionary, a structure or a single value
/// under a key becomes JSON as Foundation's `JSONEncoder` writes it without settings: `Date` as seconds since 2001,
/// `Data` in base64, `URL` as its text. Numbers are exact, whole ones in any width. Members are in the order of their
/// keys, so that equal values give equal bytes.
public struct CustomKeys: Sendable, Hashable {
  private(set) var members: [String: EncodedValue] = [:]

  /// None.
  public init() {}

  /// All that `value` encodes. Throws where that is not an object, has `aps`, or cannot be written as JSON.
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

  /// Sets one key; one that is there is replaced. Throws where the key is `aps` or the value cannot be written as JSON.
  public mutating func set(_ key: String, _ value: some Encodable) throws(PushRequestError) {
    try Self.check([key])
    members[key] = try EncodedValue(encoding: value)
  }

  /// Takes a key out.
  public mutating func remove(_ key: String) { members[key] = nil }

  /// Whether there are none.
  public var isEmpty: Bool { members.isEmpty }

  private static func check(_ keys: some Sequence<String>) throws(PushRequestError) {
    guard !keys.contains("aps") else {
      throw PushRequestError(
        .invalidPayload, "a custom key is called aps, which is the system's: take another name")
    }
  }
}
