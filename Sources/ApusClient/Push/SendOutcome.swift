public import ApusModel

/// The outcome of a push, as far as the client can know it.
public enum SendOutcome: Sendable, Hashable {
  /// The service accepted the notification. This does not mean that it was delivered.
  ///
  /// `apnsID` is the id of the request. `uniqueID` identifies the notification in the service's delivery log; services
  /// send it in the development environment, and for broadcasts.
  case accepted(apnsID: NotificationID, uniqueID: String?)
  /// The service rejected the notification and gave a reason.
  case rejected(PushRejection)
  /// There is no answer. If `retryMayDuplicate` is true, the service may have accepted the notification, so sending it
  /// again can show it twice. If false, the service has certainly not accepted it.
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

/// The rejection of a push.
public struct PushRejection: Sendable, Hashable {
  public var reason: RejectionReason
  /// The HTTP status.
  public var status: UInt16
  /// Unix milliseconds at which the service found the token inactive; with status 410.
  public var timestampMilliseconds: Int64?
  /// The id of the request.
  public var apnsID: NotificationID
  /// Seconds after which to retry, if the service sent `retry-after`; with status 429 and 5xx.
  public var retryAfterSeconds: Int?
  /// The status code of the binary interface, if the rejection came from there; `reason` and `status` are then the
  /// equivalents of the HTTP/2 interface.
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
    if let timestampMilliseconds {
      text += ", inactive since \(timestampMilliseconds) (Unix milliseconds)"
    }
    if let retryAfterSeconds { text += ", retry after \(retryAfterSeconds) s" }
    return text + ", \(HeaderName.apnsID.text) \(apnsID.text)"
  }
}

/// The reason that a service gave. Open: services may send reasons that this library does not know.
public struct RejectionReason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
  /// The reason as sent; empty if the answer had none.
  public var rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }

  public init(_ reason: Reason) { rawValue = reason.text.description }

  /// The reason, if this library knows it.
  public var known: Reason? {
    let bytes = Array(rawValue.utf8)
    return Reason(text: bytes.span)
  }

  public var description: String { rawValue.isEmpty ? "no reason given" : rawValue }

  public static func == (left: RejectionReason, right: Reason) -> Bool { left.known == right }
}

/// Why there is no answer to a push.
public struct UnknownCause: Sendable, Hashable, CustomStringConvertible {
  /// Open: later versions may add more.
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

    /// The timeout of the push expired.
    public static let timedOut = Code(.timedOut)
    /// No connection could be made: no address, no listener, or an untrusted certificate.
    public static let connectionFailed = Code(.connectionFailed)
    /// The connection ended before the answer came.
    public static let connectionLost = Code(.connectionLost)
    /// The service accepted no more requests, on several connections in a row.
    public static let requestRefused = Code(.requestRefused)
    /// The service reset the request.
    public static let requestReset = Code(.requestReset)
    /// The answer does not come from a push service, but from a proxy for example.
    public static let answerNotUnderstood = Code(.answerNotUnderstood)
    /// `ClientConfiguration.queueCapacity` pushes were already waiting.
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
  /// A readable description of what happened; may be empty.
  public var detail: String

  public init(_ code: Code, _ detail: String = "") {
    self.code = code
    self.detail = detail
  }

  public var description: String { detail.isEmpty ? "\(code)" : "\(code): \(detail)" }
}
