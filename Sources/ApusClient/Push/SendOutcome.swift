public import ApusModel

/// What became of a push, as far as the sender can honestly know.
public enum SendOutcome: Sendable, Hashable {
  /// The service took the notification on. That says nothing about its delivery.
  ///
  /// `apnsID` is the id of the request. `uniqueID` names the notification in the service's delivery log; services send
  /// one in the development environment only.
  case accepted(apnsID: NotificationID, uniqueID: String?)
  /// The service refused the notification, and says why.
  case rejected(PushRejection)
  /// There is no answer. With `retryMayDuplicate` the service may have taken the notification on, so that sending it
  /// again can show it twice; without, it certainly has not.
  case unknown(UnknownCause, retryMayDuplicate: Bool)
}

extension SendOutcome: CustomStringConvertible {
  public var description: String {
    switch self {
    case .accepted(let id, let unique):
      "accepted, \(HeaderName.apnsID.text) \(id.text)"
        + (unique.map { ", \(HeaderName.apnsUniqueID.text) \($0)" } ?? "")
    case .rejected(let rejection): "rejected: \(rejection)"
    case .unknown(let cause, let retryMayDuplicate):
      "no answer (\(cause)); sending it again "
        + (retryMayDuplicate ? "may show it twice" : "cannot show it twice")
    }
  }
}

/// A service's refusal.
public struct PushRejection: Sendable, Hashable {
  public var reason: RejectionReason
  /// The HTTP status.
  public var status: UInt16
  /// Unix milliseconds at which the token was found to be dead; with status 410.
  public var timestampMilliseconds: Int64?
  /// The id of the request.
  public var apnsID: NotificationID
  /// Seconds after which the service wants to be asked again, where it said so; with status 429 and 5xx.
  public var retryAfterSeconds: Int?
  /// The status on the binary interface, where the refusal came from there: `reason` and `status` are then what the
  /// HTTP/2 interface would have said.
  public var binaryStatus: UInt8?

  public init(
    reason: RejectionReason, status: UInt16, timestampMilliseconds: Int64? = nil,
    apnsID: NotificationID, retryAfterSeconds: Int? = nil
  ) {
    self.reason = reason
    self.status = status
    self.timestampMilliseconds = timestampMilliseconds
    self.apnsID = apnsID
    self.retryAfterSeconds = retryAfterSeconds
  }
}

extension PushRejection: CustomStringConvertible {
  public var description: String {
    var text = "\(status) \(reason)"
    if let binaryStatus { text += ", status \(binaryStatus) on the binary interface" }
    if let retryAfterSeconds { text += ", to be sent again in \(retryAfterSeconds) s" }
    return text + ", \(HeaderName.apnsID.text) \(apnsID.text)"
  }
}

/// The word with which a service refuses. Open: services may say words that this library does not know.
public struct RejectionReason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
  /// The word on the wire; empty when the answer had none.
  public var rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }

  public init(_ reason: Reason) { rawValue = reason.text.description }

  /// The reason, if it is one that this library knows.
  public var known: Reason? {
    let bytes = Array(rawValue.utf8)
    return Reason(text: bytes.span)
  }

  public var description: String { rawValue.isEmpty ? "no reason given" : rawValue }

  public static func == (left: RejectionReason, right: Reason) -> Bool { left.known == right }
}

/// Why there is no answer to a push.
public struct UnknownCause: Sendable, Hashable, CustomStringConvertible {
  /// Open: later versions may know more.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String {
      case timedOut = "timed out"
      case connectionFailed = "connection failed"
      case connectionLost = "connection lost"
      case requestRefused = "request refused"
      case requestReset = "request reset"
      case answerNotUnderstood = "answer not understood"
      case queueFull = "queue full"
      case cancelled
      case clientClosed = "client closed"
      case signingFailed = "signing failed"
    }
    private let value: Value

    private init(_ value: Value) { self.value = value }

    /// The time for a send was over.
    public static let timedOut = Code(.timedOut)
    /// No connection could be made: no address, nobody there, a certificate that is not trusted.
    public static let connectionFailed = Code(.connectionFailed)
    /// The connection ended before the answer came.
    public static let connectionLost = Code(.connectionLost)
    /// The service took no more requests, on several connections one after the other.
    public static let requestRefused = Code(.requestRefused)
    /// The service broke the request off.
    public static let requestReset = Code(.requestReset)
    /// The answer is not one of a push service: that of a proxy, perhaps.
    public static let answerNotUnderstood = Code(.answerNotUnderstood)
    /// `ClientConfiguration.queueCapacity` pushes were waiting already.
    public static let queueFull = Code(.queueFull)
    /// The task that called `send` was cancelled.
    public static let cancelled = Code(.cancelled)
    /// The client was closed before the push could be sent.
    public static let clientClosed = Code(.clientClosed)
    /// The provider token could not be signed.
    public static let signingFailed = Code(.signingFailed)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// What happened, for a person to read; may be empty.
  public var detail: String

  public init(_ code: Code, _ detail: String = "") {
    self.code = code
    self.detail = detail
  }

  public var description: String { detail.isEmpty ? "\(code)" : "\(code): \(detail)" }
}
