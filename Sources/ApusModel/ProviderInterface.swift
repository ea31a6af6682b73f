/// By which of the two provider interfaces a notification came. Where they disagree about what becomes of it, the
/// difference stands here.
public enum ProviderInterface: UInt8, Sendable, CaseIterable, Hashable {
  case http2 = 0
  case binary = 1

  /// Whether a push to a dead token is refused (410 Unregistered). The binary interface accepts and drops it: its
  /// sender learns of the token from the feedback service ("Binary Provider API", The Feedback Service).
  public var refusesDeadTokens: Bool { self == .http2 }

  /// Whether too many pushes to one device are refused (429 TooManyRequests). The binary interface has no word for
  /// that, and an error would make its sender send again what follows: it is held back instead.
  public var refusesFloods: Bool { self == .http2 }
}
