package import ApusModel

/// What goes wrong with a notification on purpose.
package struct PlannedFault: Sendable, Hashable {
  /// Of the rule that asked for it.
  package var rule: String
  package var effect: Effect

  package init(rule: String, effect: Effect) {
    self.rule = rule
    self.effect = effect
  }

  /// One that the request's interface has no word for changes nothing.
  package indirect enum Effect: Sendable, Hashable {
    case none
    /// Refused with any status and reason. The binary interface says the status that is nearest.
    case respond(Answer)
    /// Goes its usual way once ``Rehearsal/prepare(_:_:)`` has done something of its own.
    case preparation
    /// What then happens is the other effect's.
    case delay(milliseconds: UInt64, then: Effect)
    /// The stream stays open, and nothing comes. On the binary interface, which is silent about success, the
    /// notification is thrown away.
    case noAnswer
    /// The token counts as dead since that time (Unix milliseconds), or since now: the feedback service lists it, and
    /// the request is answered as ever to such a token, with 410; on the binary interface with silence.
    case deadToken(sinceMilliseconds: Int64?)
    /// RST_STREAM with that code (RFC 9113, section 7).
    case resetStream(code: UInt32)
    case goAway(GoAway)
    /// The connection ends without a word, with half of the answer written.
    case closeInTheMiddle
    /// An error packet. What came meanwhile is thrown away, as ever.
    case binaryError(status: BinaryStatus, lateMilliseconds: UInt64)
    /// The notification is bad, but its error packet is lost: the connection just ends.
    case binarySilence
    /// The notification is accepted; then the service goes: status 10 with its identifier.
    case binaryShutdown
  }

  package struct Answer: Sendable, Hashable {
    package var status: UInt16
    /// The word of the body; empty for an answer without a body.
    package var reason: String
    package var timestampMilliseconds: Int64?
    /// Seconds in a `retry-after` field.
    package var retryAfterSeconds: Int?

    package init(
      status: UInt16, reason: String, timestampMilliseconds: Int64? = nil,
      retryAfterSeconds: Int? = nil
    ) {
      self.status = status
      self.reason = reason
      self.timestampMilliseconds = timestampMilliseconds
      self.retryAfterSeconds = retryAfterSeconds
    }
  }

  package struct GoAway: Sendable, Hashable {
    /// The last stream that was, or will be, processed.
    package enum LastStream: String, Sendable, CaseIterable {
      /// 2^31-1: a warning. The request is answered, and later ones still are.
      case all
      /// 0: nothing was.
      case none
      /// The request's, which is answered.
      case thisOne
      /// The one before the request's, which may be sent again.
      case before
    }

    package var lastStream: LastStream
    /// The word in the debug data; nil for none.
    package var reason: String?
    /// The error code; 0 is NO_ERROR.
    package var code: UInt32
    /// Whether the connection ends at once, without the answers that are owed.
    package var closes: Bool

    package init(
      lastStream: LastStream, reason: String? = nil, code: UInt32 = 0, closes: Bool = false
    ) {
      self.lastStream = lastStream
      self.reason = reason
      self.code = code
      self.closes = closes
    }
  }
}
