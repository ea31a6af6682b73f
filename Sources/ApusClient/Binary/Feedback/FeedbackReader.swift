import ApusLoop
import ApusModel
import ApusTLS
import Synchronization

/// Reads the list of inactive device tokens of the binary interface: port 2196, or 2296 for development.
///
/// The service writes the tokens of the certificate's topic that became inactive since the last reading, and closes the
/// connection. It gives each token to one reader, so a list must be read completely or not at all. ``read()`` returns
/// the entries only after the end of the list, and then confirms them to the service. If anything fails before, it
/// resets the connection, and an Apus service keeps the list for the next reader. Other services may not: Apple's list
/// was gone once it was written; see ``FeedbackError/entries``. An entry may appear twice; its time counts.
///
/// Source: Binary Provider API, The Feedback Service.
public struct FeedbackReader: Sendable {
  private let configuration: FeedbackConfiguration
  private let context: TLSContext

  /// Throws if the configuration is invalid.
  public init(_ configuration: FeedbackConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    self.configuration = configuration
    context = try BinaryIdentity(
      endpoint: configuration.endpoint, serverName: configuration.serverName,
      trustRoots: configuration.trustRoots, credential: configuration.credential
    ).context
  }

  /// The tokens that became inactive since the last reading, oldest first; usually none.
  ///
  /// Cancelling the task ends the reading and leaves the list at the service.
  public func read() async throws(FeedbackError) -> [FeedbackEntry] {
    let reading = FeedbackReading(configuration, context)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        reading.start { continuation.resume(returning: $0) }
      }
    } onCancel: {
      reading.cancel()
    }
    return try result.get()
  }

  /// The same, for `for try await`: the whole list is read when its first entry is requested.
  public func entries() -> FeedbackEntries { FeedbackEntries(reader: self) }
}

/// The address of the list, and the credential.
public struct FeedbackConfiguration: Sendable {
  public var endpoint: Endpoint
  public var trustRoots: ClientConfiguration.TrustRoots
  /// A certificate, also in files or PKCS#12; the list is that of its topic. Files are read once, when the reader is
  /// created.
  public var credential: ClientConfiguration.Credential
  /// The name that the service's certificate must contain; nil for the endpoint's host.
  public var serverName: String?
  /// Seconds for connecting to one address, TLS handshake included. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Seconds of silence after which the reading fails. 1 to 3600.
  public var silenceTimeoutSeconds = 30

  public init(
    endpoint: Endpoint, trustRoots: ClientConfiguration.TrustRoots = .system,
    credential: ClientConfiguration.Credential
  ) {
    self.endpoint = endpoint
    self.trustRoots = trustRoots
    self.credential = credential
  }

  func validate() throws(ClientConfigurationError) {
    try ClientConfigurationError.require("endpoint", endpoint)
    try ClientConfigurationError.require(
      "connectTimeoutSeconds", connectTimeoutSeconds, in: 1...300)
    try ClientConfigurationError.require(
      "silenceTimeoutSeconds", silenceTimeoutSeconds, in: 1...3600)
  }
}

/// An inactive device token.
public struct FeedbackEntry: Sendable, Hashable, CustomStringConvertible {
  /// Lower-case hexadecimal digits.
  public var token: String
  /// Unix seconds at which the service found that the app was removed. Stop sending to the token unless the app
  /// registered it again after that time.
  public var timeSeconds: Int64

  public init(token: String, timeSeconds: Int64) {
    self.token = token
    self.timeSeconds = timeSeconds
  }

  /// The whole token, because it is not in use any more.
  public var description: String { "\(token), inactive since \(timeSeconds) (Unix seconds)" }
}

/// Why a list could not be read completely.
public struct FeedbackError: Error, Sendable, CustomStringConvertible {
  /// Open: later versions may add more.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String {
      case connectionFailed = "connection failed"
      case incomplete
      case timedOut = "timed out"
      case notUnderstood = "not understood"
      case cancelled
    }
    private let value: Value

    private init(_ value: Value) { self.value = value }

    /// No connection could be made, or the service refused it.
    public static let connectionFailed = Code(.connectionFailed)
    /// The connection ended before the list did.
    public static let incomplete = Code(.incomplete)
    /// The service sent nothing for too long. Apple's service sometimes kept a connection open until it had entries.
    public static let timedOut = Code(.timedOut)
    /// The data is not a feedback list.
    public static let notUnderstood = Code(.notUnderstood)
    /// The task that called `read` was cancelled.
    public static let cancelled = Code(.cancelled)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// A readable description of what happened.
  public var detail: String
  /// The entries received before the error: valid, and perhaps not sent to any reader again.
  public var entries: [FeedbackEntry]

  init(_ code: Code, _ detail: String, _ entries: [FeedbackEntry] = []) {
    self.code = code
    self.detail = detail
    self.entries = entries
  }

  public var description: String {
    let count = entries.isEmpty ? "" : " (after \(entries.count) tokens)"
    return detail.isEmpty ? "\(code)\(count)" : "\(code): \(detail)\(count)"
  }
}

/// The entries of one list. Each iterator reads its own list.
public struct FeedbackEntries: AsyncSequence, Sendable {
  public typealias Element = FeedbackEntry
  public typealias Failure = FeedbackError

  let reader: FeedbackReader

  public func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

  public struct Iterator: AsyncIteratorProtocol {
    let reader: FeedbackReader
    private var entries: [FeedbackEntry]?
    private var position = 0

    init(reader: FeedbackReader) { self.reader = reader }

    public mutating func next() async throws(FeedbackError) -> FeedbackEntry? {
      if entries == nil { entries = try await reader.read() }
      return take()
    }

    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(FeedbackError) -> FeedbackEntry? {
      if entries == nil { entries = try await reader.read() }
      return take()
    }

    private mutating func take() -> FeedbackEntry? {
      guard let entries, position < entries.count else { return nil }
      defer { position += 1 }
      return entries[position]
    }
  }
}
