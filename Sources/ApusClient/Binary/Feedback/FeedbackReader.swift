import ApusLoop
import ApusModel
import ApusTLS
import Synchronization

/// Reads the list of dead device tokens of the binary interface: port 2196, or 2296 for development.
///
/// The service writes the tokens of the certificate's topic that died since the list was last read, and ends the
/// connection. It gives each of them to one reader: so a list is read whole or not at all. ``read()`` gives the entries
/// only once the end of the list has come, and lets the service know that it has them; if anything breaks before that,
/// it resets the connection, upon which an Apus service keeps the list for the next reader. (What others do is theirs:
/// Apple's list was gone once it was written. Hence ``FeedbackError/entries``.) An entry may come twice; what counts is
/// its time.
///
/// Source: "Binary Provider API", "The Feedback Service".
public struct FeedbackReader: Sendable {
  private let configuration: FeedbackConfiguration
  private let context: TLSContext

  /// Throws what is wrong with the configuration.
  public init(_ configuration: FeedbackConfiguration) throws(ClientConfigurationError) {
    try configuration.validate()
    self.configuration = configuration
    context = try BinaryIdentity(
      endpoint: configuration.endpoint, serverName: configuration.serverName,
      trustRoots: configuration.trustRoots, credential: configuration.credential
    ).context
  }

  /// The tokens that died since the list was last read, oldest first; none is the usual answer.
  ///
  /// Cancelling the task ends the reading, and leaves the list where it is.
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

  /// The same, for a `for try await`: the list is read whole when its first entry is asked for.
  public func entries() -> FeedbackEntries { FeedbackEntries(reader: self) }
}

/// Where the list is, and who asks for it.
public struct FeedbackConfiguration: Sendable {
  public var endpoint: Endpoint
  public var trustRoots: ClientConfiguration.TrustRoots
  /// A certificate, also in files or PKCS#12, whose topic is the one that the list is about. Files are read
  /// once, when the reader is made.
  public var credential: ClientConfiguration.Credential
  /// The name that the service's certificate must be for; nil for the endpoint's host.
  public var serverName: String?
  /// Seconds for connecting to one address and for the TLS handshake together. 1 to 300.
  public var connectTimeoutSeconds = 10
  /// Seconds without a word from the service after which it is given up. 1 to 3600.
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

/// A device token that is dead.
public struct FeedbackEntry: Sendable, Hashable {
  /// In hexadecimal digits, lower case.
  public var token: String
  /// Unix seconds at which the service found that the app is gone. Stop sending to the token, unless the app registered
  /// it again later than that.
  public var timeSeconds: Int64

  public init(token: String, timeSeconds: Int64) {
    self.token = token
    self.timeSeconds = timeSeconds
  }
}

/// Why a list was not read to its end.
public struct FeedbackError: Error, Sendable, CustomStringConvertible {
  /// Open: later versions may know more.
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
    /// The service said nothing for too long. Apple's was seen to hold a connection open until there was something to
    /// tell.
    public static let timedOut = Code(.timedOut)
    /// What came is no list.
    public static let notUnderstood = Code(.notUnderstood)
    /// The task that called `read` was cancelled.
    public static let cancelled = Code(.cancelled)

    public var description: String { value.rawValue }
  }

  public var code: Code
  /// What happened, for a person to read.
  public var detail: String
  /// What came before: good, and perhaps told to nobody else again.
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

/// The entries of one list. Each iterator reads a list of its own.
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
