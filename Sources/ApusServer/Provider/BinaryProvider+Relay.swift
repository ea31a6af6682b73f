import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

// Senders whose app has an upstream. A frame whose device token another service issued is kept for upstream, and
// accepted as soon as it is in the store. What upstream rejects afterwards is reported by an error packet, as long as
// the sender is connected; what the sender sends again because of that is recognised.

/// What a connection knows of its frames that went upstream.
struct RelayingSender {
  var frames = RelayedFrames()
  var matching: RememberedSequences.Matching
  /// An error packet will end the connection: nothing more is read.
  var refusal: LateRefusal?

  /// - Parameter sender: Of its certificate and environment.
  init(sender: RelayDigest) { matching = RememberedSequences.Matching(sender: sender) }
}

/// An error packet about a frame that was accepted, and what it waits for.
struct LateRefusal {
  var sequence: UInt32
  var status: BinaryStatus
  /// Called with whether the sender is told which notification it is.
  var completion: @Sendable (_ isReported: Bool) -> Void
  /// Frames behind it that upstream has rejected as well.
  var others: [(id: NotificationID, status: BinaryStatus)] = []
  /// Whether it is being written what the sender will send again.
  var isRemembered = false
}

extension BinaryProvider {
  /// The relay, if the sender's app has an upstream.
  func beginRelaying() -> (any UpstreamRelay)? {
    guard !context.trust.upstreams.isEmpty, let relay = context.configuration.relay,
      let topic = try? sender.requiredTopic(), context.trust.upstreams[topic.key.app] != nil
    else { return nil }
    if relaying == nil { relaying = RelayingSender(sender: sender.digest) }
    return relay
  }

  // MARK: Frames

  /// Passes a frame on: to a device of this service if `claims` says so, else to the relay.
  func relay(
    _ frame: BinaryFrame, _ bytes: Span<UInt8>, token: DeviceToken, claims: TokenClaims?,
    to relay: any UpstreamRelay, _ now: Now
  ) throws(Refusal) -> Outcome {
    var payloads = PayloadSeries(bytes)
    let payload = bytes.extracting(frame.payload)
    let id = context.ids.next()
    if let claims {
      let admitted = try Admission.admit(
        frame, payload: frame.payload, of: &payloads, token: token, claims: claims,
        sender: sender)
      if let outcome = resent(frame, bytes, admitted.facts(id)) { return outcome }
      let outcome = pass(admitted, payload: payload, id: id, now)
      noteOther(frame, bytes, id, outcome)
      return outcome
    }
    let notification = try Admission.relayed(
      frame, payload: frame.payload, of: &payloads, bytes: payload, token: token, sender: sender,
      id: id)
    if let outcome = resent(frame, bytes, notification.facts(0, .binary)) { return outcome }
    let kept = KeptNotification(
      notification: notification, acceptedMilliseconds: now.wallMilliseconds,
      waiter: .frame(nextAnswer))
    providers.binaryScratch.kept.append(kept)
    pauseReading(seconds: relay.charge(notification.topic.app))
    relaying?.frames.addRelayed(
      .init(digest: digest(of: frame, bytes), original: id), sequence: machine.nextSequence,
      identifier: frame.identifier ?? 0, isSilent: frame.isSimple)
    return .undecided
  }

  /// Hands over what was read: together, so that the relay's thread is woken once.
  func handOver(to relay: any UpstreamRelay) {
    let scratch = providers.binaryScratch
    guard !scratch.kept.isEmpty else { return }
    relay.keep(contentsOf: &scratch.kept)
    guard !scratch.kept.isEmpty else { return }
    // Deciding about one does not read more.
    for kept in scratch.kept {
      guard let answer = kept.waiter.frame else { continue }
      decided(Verdict(answer: answer, rejection: Rejection(.serviceUnavailable)))
    }
    scratch.kept.removeAll(keepingCapacity: true)
  }

  /// The outcome of a frame that repeats an accepted one after an error packet; nil for any other.
  ///
  /// - Parameter facts: Of the frame, if it is accepted as a new notification; without an order.
  private func resent(
    _ frame: BinaryFrame, _ bytes: Span<UInt8>, _ facts: @autoclosure () -> NotificationFacts
  ) -> Outcome? {
    guard var matching = relaying?.matching else { return nil }
    defer { relaying?.matching = matching }
    let resends = context.shared.resends
    guard resends.isMatching(&matching) else { return nil }
    let digest = digest(of: frame, bytes)
    guard let resend = resends.match(digest, on: &matching, nowSeconds: context.wallSeconds) else {
      return nil
    }
    noteResent(facts(), as: resend.original)
    relaying?.frames.addOther(
      .init(digest: digest, original: resend.original), nextSequence: machine.nextSequence)
    guard let status = resend.status else { return .accepted }
    // The rest of what is remembered is for the next connection.
    resends.remember([], after: digest, on: &matching, nowSeconds: context.wallSeconds) { _ in }
    return .refused(status)
  }

  /// The ledger names the notification that was accepted before.
  private func noteResent(_ facts: NotificationFacts, as original: NotificationID) {
    var facts = facts
    facts.id = original
    facts.order = context.shared.order.next() ?? 0
    shard.noteResent(facts)
  }

  /// A notification for a device of this service follows others that went upstream.
  private func noteOther(
    _ frame: BinaryFrame, _ bytes: Span<UInt8>, _ id: NotificationID, _ outcome: Outcome
  ) {
    guard let relaying, relaying.frames.count > 0 else { return }
    let isDecided: Bool
    switch outcome {
    case .accepted: isDecided = true
    case .undecided: isDecided = false
    case .failed, .refused: return
    }
    self.relaying?.frames.addOther(
      .init(digest: digest(of: frame, bytes), original: id), nextSequence: machine.nextSequence,
      isDecided: isDecided)
  }

  /// Of device token, expiration and payload: what a sender repeats.
  private func digest(of frame: BinaryFrame, _ bytes: Span<UInt8>) -> RelayDigest {
    var input: [UInt8] = []
    input.reserveCapacity(DeviceToken.byteCount + 5 + frame.payload.count)
    input.append(bytes.extracting(frame.token))
    input.append(frame.expiration == nil ? 0 : 1)
    input.append(bigEndian: frame.expiration ?? 0)
    input.append(bytes.extracting(frame.payload))
    return RelayDigest(sha256Of: input.span)
  }

  // MARK: Answers

  /// Upstream has accepted a notification, or nothing will be said about it.
  func relayedAnswered(_ sequence: UInt32) {
    relaying?.frames.answered(sequence)
    if connection.isReadingPaused { connection.markDirty() }
  }

  /// Upstream has rejected a notification. False if the sender cannot be told any more.
  func refuse(_ refusal: RelayRefusal, of relay: any UpstreamRelay) -> Bool {
    let late = LateRefusal(sequence: refusal.answer.sequence, status: refusal.status) {
      relay.settled(refusal, isReported: $0)
    }
    if refuse(late) { return true }
    relaying?.refusal?.others.append((refusal.id, refusal.status))
    return false
  }

  /// The store has a frame, or did not take it.
  ///
  /// - Returns: True if nothing more is to be done about it.
  func relayDecided(_ sequence: UInt32, isAccepted: Bool) -> Bool {
    relaying?.frames.decided(sequence, isAccepted: isAccepted)
    defer { rememberResends() }
    if isAccepted { return false }
    if let refusal = relaying?.refusal, sequence &- refusal.sequence < UInt32.max / 2 {
      // For its sender it is discarded.
      return true
    }
    return refuse(LateRefusal(sequence: sequence, status: .processingError) { _ in })
  }

  /// Ends the connection with an error packet, once everything behind the frame is decided, and it is on disk what of
  /// that the sender will send again.
  private func refuse(_ refusal: LateRefusal) -> Bool {
    guard !machine.isEnded, let relaying, relaying.refusal == nil,
      relaying.frames.refused(refusal.sequence) != nil
    else { return false }
    self.relaying?.refusal = refusal
    rememberResends()
    return true
  }

  private func rememberResends() {
    guard let refusal = relaying?.refusal, !refusal.isRemembered, var relaying,
      relaying.frames.isDecided(after: refusal.sequence),
      let refused = relaying.frames.refused(refusal.sequence)
    else { return }
    relaying.refusal?.isRemembered = true
    let (loop, refusing) = (context.loop, RefusingSender(provider: self))
    let resends = context.shared.resends
    resends.remember(
      refused.following, after: refused.digest, on: &relaying.matching,
      nowSeconds: context.wallSeconds
    ) { _ in
      // Without the rows a restart would forget what is remembered, and nothing else.
      loop.perform {
        refusal.completion(
          refusing.provider.report(refusal.sequence, refused, refusal.status))
      }
    }
    for (id, status) in refusal.others { resends.noteRefused(id, status) }
    self.relaying = relaying
  }

  fileprivate func report(
    _ sequence: UInt32, _ refused: RelayedFrames.Refused, _ status: BinaryStatus
  ) -> Bool {
    defer { connection.markDirty() }
    return machine.refuseAccepted(
      sequence, identifier: refused.identifier, isSilent: refused.isSilent, status: status)
      && !refused.isSilent
  }

  /// Whether nothing more is to be read because of what went upstream.
  var isRelayBlocked: Bool {
    guard let relaying else { return false }
    return relaying.refusal != nil || relaying.frames.count >= Limits.relayLookAheadFrames
      || context.configuration.relay?.isFull == true
  }

  func endRelaying() {
    guard var relaying else { return }
    context.shared.resends.end(&relaying.matching)
    if let refusal = relaying.refusal, !refusal.isRemembered {
      refusal.completion(false)
      relaying.refusal = nil
    }
    self.relaying = relaying
  }
}

/// A sender that is to be told of a rejection when the store has what it will send again. Only its worker's thread uses
/// it.
private struct RefusingSender: @unchecked Sendable {
  let provider: BinaryProvider
}

extension AdmittedFrame {
  fileprivate func facts(_ id: NotificationID) -> NotificationFacts {
    NotificationFacts(
      order: 0, id: id, uniqueID: NotificationID(high: 0, low: 0), device: claims.device,
      topic: claims.topic, environment: claims.environment, tokenPrefix: head.token.words.0,
      pushType: head.pushType, priority: head.priority, interface: .binary)
  }
}
