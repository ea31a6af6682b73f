import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusWire

extension Interception: ProviderInterception {
  func adjust(_ session: inout HTTP2ServerSession.Configuration, _ hasRaisedLimit: inout Bool) {
    session.keepsEveryField = true
    let opening = shared.interceptor.opening
    if let streams = opening.maxConcurrentStreams {
      session.initialStreamLimit = max(0, streams)
      hasRaisedLimit = true
    }
    if let bytes = opening.initialWindowBytes {
      // RFC 9113, section 6.5.2: at most 2^31-1.
      session.initialWindowBytes = min(max(0, bytes), Int(Int32.max))
    }
  }

  func decide(_ request: HTTP2Request, of provider: HTTP2Provider) {
    provider.intercept(request, self)
  }

  func willReject(_ request: HTTP2Request, _ refusal: Refusal, of provider: HTTP2Provider) {
    if provider.managesChannels { return provider.logRefusal(of: request, refusal) }
    provider.explain(refusal, of: request, self)
  }

  func rejected(
    _ request: HTTP2Request, _ rejection: Rejection, _ id: NotificationID?,
    of provider: HTTP2Provider
  ) {
    provider.noteRefused(request, rejection, id)
  }

  func accepted(_ open: OpenRequest, of provider: HTTP2Provider) { provider.noteAccepted(open) }

  func forwarded(
    _ request: HTTP2Request, _ answer: UpstreamAnswer, _ facts: NotificationFacts,
    of provider: HTTP2Provider
  ) {
    provider.noteForwarded(request, answer, facts)
  }

  func accepted(
    _ request: HTTP2Request, _ id: NotificationID?, unique: NotificationID,
    of provider: HTTP2Provider
  ) {
    provider.noteBroadcast(request, id, unique: unique)
  }

  func flush(_ provider: HTTP2Provider) -> Connection.Ending? {
    ending == .none ? nil : provider.flushLast(self)
  }

  func drain(_ provider: HTTP2Provider) { provider.letGo(self) }

  func connectionClosed(_ provider: HTTP2Provider) { provider.interceptionEnded(self) }

  func receive(_ input: Span<UInt8>, of provider: BinaryProvider) {
    provider.intercept(input, self)
  }

  func decided(_ sequence: UInt32, _ rejection: Rejection?, of provider: BinaryProvider) {
    provider.noteDecided(sequence, rejection, self)
  }

  func holdsBack(_ provider: BinaryProvider) -> Bool {
    heldUntilMilliseconds > provider.context.loop.nowMilliseconds
  }

  func end(_ packet: BinaryErrorPacket?, of provider: BinaryProvider) -> Connection.Ending? {
    ending == .none ? nil : provider.flushLast(packet, self)
  }

  func connectionClosed(_ provider: BinaryProvider) { provider.interceptionEnded(self) }
}

extension HTTP2Provider {
  /// The interception itself, for the files beside this one.
  var intercepting: Interception? { interception as? Interception }
}

extension BinaryProvider {
  /// The interception itself, for the files beside this one.
  var intercepting: Interception? { interception as? Interception }
}
