/// The interface by which a notification came, and the differences in how the two treat it.
public enum ProviderInterface: UInt8, Sendable, CaseIterable, Hashable {
  case http2 = 0
  case binary = 1

  /// Whether a push to a dead token is rejected (410 Unregistered). The binary interface accepts and drops it: its
  /// provider learns of the token from the feedback service ("Binary Provider API", The Feedback Service).
  public var refusesDeadTokens: Bool { self == .http2 }

  /// Whether too many pushes to one device are rejected (429 TooManyRequests). The binary interface has no status for
  /// that, and an error would make its provider resend what follows, so the provider is held back instead.
  public var refusesFloods: Bool { self == .http2 }
}
