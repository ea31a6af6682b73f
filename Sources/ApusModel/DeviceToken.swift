/// The id of a device: its certificate contains it, and its device tokens resolve to it.
public struct DeviceID: Sendable, Hashable {
  public var rawValue: UInt64

  public init(_ rawValue: UInt64) { self.rawValue = rawValue }

  /// Stands for devices of another service.
  public static let none = DeviceID(0)

  /// 16 hexadecimal digits, as in the device's certificate.
  public var text: String {
    let digits = String(rawValue, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Reads the 16 digits.
  public init?(text: String) {
    // `UInt64(_:radix:)` also accepts a sign.
    guard text.utf8.count == 16, text.utf8.allSatisfy({ hexValue($0) != nil }),
      let value = UInt64(text, radix: 16)
    else { return nil }
    self.init(value)
  }
}

extension DeviceID: CustomStringConvertible {
  /// `text`.
  public var description: String { text }
}

/// An app's number, small enough for a device token; assigned when its topic was registered.
public struct AppID: Sendable, Hashable {
  public var rawValue: UInt32

  public init(_ rawValue: UInt32) { self.rawValue = rawValue }

  /// No app: for the token that names a device to the courier and is valid for no topic.
  public static let base = AppID(0)
}

/// A topic as a key of tables: the app, and the suffix of the topic after its bundle id.
public struct TopicKey: Sendable, Hashable {
  public var app: AppID
  public var suffix: TopicSuffix

  public init(app: AppID, suffix: TopicSuffix = .none) {
    self.app = app
    self.suffix = suffix
  }
}

/// The content of a device token, unsealed.
public struct TokenClaims: Sendable, Hashable {
  public var device: DeviceID
  public var topic: TopicKey
  public var environment: Environment
  /// Raised when the app is reinstalled: tokens of older generations are dead.
  public var generation: UInt16

  public init(
    device: DeviceID, topic: TopicKey, environment: Environment, generation: UInt16
  ) {
    self.device = device
    self.topic = topic
    self.environment = environment
    self.generation = generation
  }
}

/// An issued device token: 32 bytes, opaque to everybody but the service.
///
/// Apple promises no length, but old clients read feedback as tuples of 38 bytes and reject tokens that are not 32
/// bytes long.
public struct DeviceToken: Sendable, Hashable {
  /// The bytes in order, eight per word, most significant first.
  public var words: (UInt64, UInt64, UInt64, UInt64)

  public static let byteCount = 32

  public init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

  /// Whether every byte is 0: such a token is never issued.
  public var isZero: Bool { words.0 | words.1 | words.2 | words.3 == 0 }

  /// Takes exactly 32 bytes.
  public init?(bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    words = (
      bytes.eightBytes(at: 0), bytes.eightBytes(at: 8), bytes.eightBytes(at: 16),
      bytes.eightBytes(at: 24)
    )
  }

  /// Takes exactly 64 hexadecimal digits in either case.
  public init?(hex: Span<UInt8>) {
    guard hex.count == 2 * Self.byteCount else { return nil }
    func word(_ start: Int) -> UInt64? {
      guard let high = hexValue(ofEight: hex.eightBytes(at: start)),
        let low = hexValue(ofEight: hex.eightBytes(at: start + 8))
      else { return nil }
      return high &<< 32 | low
    }
    guard let first = word(0), let second = word(16), let third = word(32), let fourth = word(48)
    else { return nil }
    words = (first, second, third, fourth)
  }

  public subscript(index: Int) -> UInt8 {
    let word =
      switch index >> 3 {
      case 0: words.0
      case 1: words.1
      case 2: words.2
      default: words.3
      }
    return UInt8(truncatingIfNeeded: word &>> UInt64(56 - 8 * (index & 7)))
  }

  /// The 32 bytes.
  public var bytes: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Self.byteCount)
    var output = bytes.mutableSpan
    output.setEightBytes(words.0, at: 0)
    output.setEightBytes(words.1, at: 8)
    output.setEightBytes(words.2, at: 16)
    output.setEightBytes(words.3, at: 24)
    return bytes
  }

  /// 64 lower-case digits: what an app gives its provider. Never log it.
  public var hex: String {
    String(
      decoding: bytes.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] }, as: UTF8.self)
  }

  /// The first eight digits: enough to search for a token, too few to use it.
  public var redacted: String { String(hex.prefix(8)) + "…" }

  public static func == (left: DeviceToken, right: DeviceToken) -> Bool {
    // Compares all words in constant time, so timing does not reveal where a presented token differs.
    (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1)
      | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3) == 0
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(words.1)
    hasher.combine(words.3)
  }
}

extension DeviceToken: CustomStringConvertible {
  /// `redacted`, because descriptions end in logs. A provider needs `hex`.
  public var description: String { redacted }
}

/// The lower-case digit of a value below 16.
@inlinable
public func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
