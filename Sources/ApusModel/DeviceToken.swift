/// A device: what its certificate names, and what a token leads to.
public struct DeviceID: Sendable, Hashable {
  public var rawValue: UInt64

  public init(_ rawValue: UInt64) { self.rawValue = rawValue }

  /// 16 hexadecimal digits, as the device's certificate carries them.
  public var text: String {
    let digits = String(rawValue, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Reads the 16 digits.
  public init?(text: String) {
    // The standard library's reader takes a sign for a digit.
    guard text.utf8.count == 16, text.utf8.allSatisfy({ hexValue($0) != nil }),
      let value = UInt64(text, radix: 16)
    else { return nil }
    self.init(value)
  }
}

/// An app of the service, as small as a token needs it: the number that its topic was registered under.
public struct AppID: Sendable, Hashable {
  public var rawValue: UInt32

  public init(_ rawValue: UInt32) { self.rawValue = rawValue }

  /// No app: in the token that names a device to the courier and is good for no topic.
  public static let base = AppID(0)
}

/// A topic in the form that tables are keyed by: the app, and what stands behind its bundle id.
public struct TopicKey: Sendable, Hashable {
  public var app: AppID
  public var suffix: TopicSuffix

  public init(app: AppID, suffix: TopicSuffix = .none) {
    self.app = app
    self.suffix = suffix
  }
}

/// What a device token says once it is unsealed.
public struct TokenClaims: Sendable, Hashable {
  public var device: DeviceID
  public var topic: TopicKey
  public var environment: Environment
  /// Raised when the app is installed anew: a token of an older generation is dead.
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

/// A device token as it is issued: 32 bytes, opaque to everybody but the service.
///
/// Apple promises no length, yet old clients read feedback as tuples of 38 bytes and refuse a token of any other
/// length than 32.
public struct DeviceToken: Sendable, Hashable {
  /// The bytes in order, eight to a word, the first byte the most significant.
  public var words: (UInt64, UInt64, UInt64, UInt64)

  public static let byteCount = 32

  public init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

  /// Whether every byte is 0: no service issues such a token.
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
  public var bytes: [UInt8] { (0..<Self.byteCount).map { self[$0] } }

  /// 64 digits in lower case: what an app gives its provider. Never for logs.
  public var hex: String {
    String(
      decoding: bytes.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] }, as: UTF8.self)
  }

  /// The first eight digits: enough to find a token by, too few to use.
  public var redacted: String { String(hex.prefix(8)) + "…" }

  public static func == (left: DeviceToken, right: DeviceToken) -> Bool {
    // One comparison for all words: where a presented token differs takes no measurable time.
    (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1)
      | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3) == 0
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(words.1)
    hasher.combine(words.3)
  }
}

/// The lower-case digit of a value below 16.
@inlinable
public func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
