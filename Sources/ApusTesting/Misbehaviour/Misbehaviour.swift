/// Something that a push service must not do, or rarely does: bytes that it sends out of turn, and what a client then
/// does (RFC 9113, sections 5.4, 6 and 8).
///
/// They concern two open requests, whose bodies arrived or not: the victim, and the bystander behind it.
package struct Misbehaviour: Sendable, CustomStringConvertible {
  /// When the bytes are sent, in the course of the victim.
  package enum Moment: Sendable, Hashable, CaseIterable {
    /// Before the service's first SETTINGS.
    case beforeSettings
    /// After them, before any request.
    case beforeRequest
    case afterRequestHeaders
    case withinRequestBody
    /// The request is complete, and no response has begun.
    case afterRequest
    case afterResponseHeaders
    case withinResponseBody
    /// Together with the end of the response.
    case afterResponse
    /// When no request is open.
    case idle

    /// Whether no request was sent.
    package var isOpening: Bool { self == .beforeSettings || self == .beforeRequest }
    /// Whether the victim is open then.
    package var isOpen: Bool { isAsked || isAnswering }
    /// Whether it is open, and no response has begun.
    package var isAsked: Bool {
      self == .afterRequestHeaders || self == .withinRequestBody || self == .afterRequest
    }
    package var isAnswering: Bool { self == .afterResponseHeaders || self == .withinResponseBody }
    /// Whether the end of the request has not arrived, because the service's window holds the body back.
    package var isPartial: Bool { self == .afterRequestHeaders || self == .withinRequestBody }
  }

  /// What follows for the victim and the connection.
  package enum Effect: Sendable, Hashable {
    /// Nothing: both requests go on.
    case ignored
    /// The client resets the victim's stream.
    case streamError
    /// The client ends the connection.
    case connectionError
    /// The service has reset the victim's stream, and may say by that that it did not process the request.
    case reset(isRefused: Bool)
    /// The service processes only the first requests, of the two that are open.
    case goAway(spares: Int)
    /// The victim has an answer.
    case accepted
    case rejected(status: UInt16)
    /// It has one that nobody can interpret.
    case unclear
  }

  /// Streams for which bytes are made.
  package struct Streams: Sendable {
    package var victim: UInt32
    package var bystander: UInt32

    package init(victim: UInt32, bystander: UInt32) {
      self.victim = victim
      self.bystander = bystander
    }
  }

  package let description: String
  /// Whether the service then ends the connection.
  package private(set) var closes = false
  /// Whether it thereby lets the victim's body come.
  package private(set) var releasesBody = false
  private let first: Effect
  private let unasked: Effect
  private let asked: Effect
  private let answering: Effect
  private let answered: Effect
  private let make: @Sendable (Streams) -> [UInt8]

  package func bytes(_ streams: Streams) -> [UInt8] { make(streams) }

  package func effect(at moment: Moment) -> Effect {
    switch moment {
    case .beforeSettings: first
    case .beforeRequest: unasked
    case .afterRequestHeaders, .withinRequestBody, .afterRequest: asked
    case .afterResponseHeaders, .withinResponseBody: answering
    case .afterResponse, .idle: answered
    }
  }

  // MARK: Kinds

  /// An error of the connection at any time.
  static func violation(
    _ name: String, _ bytes: @escaping @Sendable (Streams) -> [UInt8]
  ) -> Misbehaviour {
    Misbehaviour(
      description: name, first: .connectionError, unasked: .connectionError,
      asked: .connectionError, answering: .connectionError, answered: .connectionError, make: bytes)
  }

  /// Allowed at any time, except that SETTINGS come first.
  static func harmless(
    _ name: String, isFirst: Bool = false, _ bytes: @escaping @Sendable (Streams) -> [UInt8]
  ) -> Misbehaviour {
    Misbehaviour(
      description: name, first: isFirst ? .ignored : .connectionError, unasked: .ignored,
      asked: .ignored, answering: .ignored, answered: .ignored, make: bytes)
  }

  /// Something on the victim's stream. A stream that the client did not open is an error of the connection; a closed
  /// one may have been reset in the meantime.
  static func onStream(
    _ name: String, _ asked: Effect, _ answering: Effect, releasesBody: Bool = false,
    _ bytes: @escaping @Sendable (Streams) -> [UInt8]
  ) -> Misbehaviour {
    var made = Misbehaviour(
      description: name, first: .connectionError, unasked: .connectionError, asked: asked,
      answering: answering, answered: .ignored, make: bytes)
    made.releasesBody = releasesBody
    return made
  }

  /// GOAWAY. What it spares is answered.
  static func leaving(
    _ name: String, spares count: Int, _ bytes: @escaping @Sendable (Streams) -> [UInt8]
  ) -> Misbehaviour {
    let effect = Effect.goAway(spares: count)
    return Misbehaviour(
      description: name, first: .connectionError, unasked: effect, asked: effect,
      answering: effect, answered: effect, make: bytes)
  }

  /// Ends the connection after the bytes, which change nothing by themselves.
  static func closing(
    _ name: String, _ bytes: @escaping @Sendable (Streams) -> [UInt8]
  ) -> Misbehaviour {
    var made = violation(name, bytes)
    made.closes = true
    return made
  }
}
