package import ApusModel

/// A fault that the development service causes on purpose for a notification.
package struct PlannedFault: Sendable, Hashable {
  /// The rule that asked for the fault.
  package var rule: String
  package var effect: Effect

  package init(rule: String, effect: Effect) {
    self.rule = rule
    self.effect = effect
  }

  /// An effect that the request's interface cannot express changes nothing.
  package indirect enum Effect: Sendable, Hashable {
    case none
    /// Rejected with any status and reason. The binary interface sends the nearest status.
    case respond(Answer)
    /// Processed as usual once ``Interceptor/prepare(_:_:)`` has called `done`.
    case preparation
    /// The other effect happens after the delay.
    case delay(milliseconds: UInt64, then: Effect)
    /// The stream stays open without a response. The binary interface, which does not confirm success, discards the
    /// notification.
    case noAnswer
    /// The token counts as dead since that time (Unix milliseconds), or since now. The feedback service lists it.
    /// HTTP/2 answers with 410, the binary interface with silence, as always for dead tokens.
    case deadToken(sinceMilliseconds: Int64?)
    /// RST_STREAM with that code (RFC 9113, section 7).
    case resetStream(code: UInt32)
    case goAway(GoAway)
    /// The connection is cut when half of the answer is written.
    case closeInTheMiddle
    /// An error packet. Frames that arrived in the meantime are discarded, as always.
    case binaryError(status: BinaryStatus, lateMilliseconds: UInt64)
    /// The notification is bad, but its error packet is lost: the connection ends without one.
    case binarySilence
    /// The notification is accepted; then the service shuts the connection down: status 10 with its identifier.
    case binaryShutdown
  }

  package struct Answer: Sendable, Hashable {
    package var status: UInt16
    /// The reason in the body; empty for an answer without a body.
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
    /// The last stream that was or will be processed.
    package enum LastStream: String, Sendable, CaseIterable {
      /// 2^31-1: a warning. This request and later ones are still answered.
      case all
      /// 0: no stream was processed.
      case none
      /// The stream of this request, which is answered.
      case thisOne
      /// The stream before this request's. The provider may send the request again.
      case before
    }

    package var lastStream: LastStream
    /// The reason in the debug data; nil for no debug data.
    package var reason: String?
    /// The error code; 0 is NO_ERROR.
    package var code: UInt32
    /// Whether the connection ends at once, without the outstanding answers.
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
