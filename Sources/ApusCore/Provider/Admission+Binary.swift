package import ApusModel
package import ApusWire

// Admission for the binary interface. The order of its checks: framing, device token, payload size
// (`BinaryFrame.scan`), then topic, the token's authenticity, payload content.

/// The content of an admitted frame.
package struct AdmittedFrame: Sendable {
  package var head: AdmittedHead
  package var claims: TokenClaims
}

extension Admission {
  /// Decides on a well-formed frame. Its payload is at `payload` of the input of `payloads`; `claims` are those of its
  /// device token, nil if this service did not issue it.
  package static func admit(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    token: DeviceToken, claims: TokenClaims?, sender: borrowing BinarySender
  ) throws(Refusal) -> AdmittedFrame {
    let topic = try sender.requiredTopic()
    let claims = try authentic(claims, environment: sender.environment)
    // A base token names the device to the courier. The interface accepts only tokens of apps: whether the device has
    // the app would be known only after later frames were already being processed.
    guard claims.topic == topic.key else {
      throw Refusal(.deviceTokenOfOtherTopic(token: claims.topic, request: topic.key))
    }
    return try admitted(
      frame, payload: payload, of: &payloads, token: token, claims: claims, topic: topic,
      sender: sender)
  }

  /// The same for the development service, which accepts any certificate, or none: the topic is the device token's.
  package static func admit(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    token: DeviceToken, claims: TokenClaims?, directory: Directory,
    forgiving sender: borrowing BinarySender
  ) throws(Refusal) -> AdmittedFrame {
    let claims = try authentic(claims, environment: sender.environment)
    guard let app = directory.app(claims.topic.app) else { throw Refusal(.topicUnknown) }
    return try admitted(
      frame, payload: payload, of: &payloads, token: token, claims: claims,
      topic: ResolvedTopic(key: claims.topic, team: app.team), sender: sender)
  }

  @inline(__always)
  private static func admitted(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    token: DeviceToken, claims: TokenClaims, topic: ResolvedTopic, sender: borrowing BinarySender
  ) throws(Refusal) -> AdmittedFrame {
    let head = try head(
      frame, payload: payload, of: &payloads, token: token, topic: topic, sender: sender
    ).head
    return AdmittedFrame(head: head, claims: claims)
  }

  /// The content of a frame for that topic, and what its payload says; nil for an invalid payload, if the rules accept
  /// any.
  @inline(__always)
  static func head(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    token: DeviceToken, topic: ResolvedTopic, sender: borrowing BinarySender
  ) throws(Refusal) -> (head: AdmittedHead, scan: PayloadScan?) {
    let scan = try scan(
      payload, of: &payloads, sender.rules, needsAPS: topic.key.suffix != .fileProvider)
    let isBackground = scan?.onlyContentAvailable ?? false
    let head = AdmittedHead(
      messageID: nil, expirationSeconds: expirationSeconds(frame),
      priority: try priority(frame, isBackground: isBackground, sender.rules), pushType: nil,
      isBackground: isBackground, topic: topic, topicSuitsPushType: true, token: token)
    return (head, scan)
  }

  /// Unsigned seconds, so that -1 from a legacy sender is far in the future. Only an explicit 0 prevents storage:
  /// command 0, and command 2 without item 4, are stored as the newest notification ("Quality of Service"), like a
  /// request without `apns-expiration`.
  private static func expirationSeconds(_ frame: BinaryFrame) -> Int64? {
    frame.expiration.map { Int64($0) }
  }

  /// Nil for an invalid payload, if the rules accept any.
  private static func scan(
    _ payload: Range<Int>, of payloads: inout PayloadSeries, _ rules: BinaryRules, needsAPS: Bool
  ) throws(Refusal) -> PayloadScan? {
    do throws(Refusal) {
      guard !payload.isEmpty else { throw Refusal(.payloadEmpty) }
      let scan: PayloadScan
      do throws(JSONFault) {
        scan = try payloads.scan(payload)
      } catch {
        throw Refusal(.payloadNotJSON(error))
      }
      if needsAPS { try requireKeys(scan) }
      return scan
    } catch {
      guard rules.acceptsAnyPayload else { throw error }
      return nil
    }
  }

  /// The priority is 10 or 5. Commands 0 and 1 have none, and are sent at once.
  private static func priority(
    _ frame: BinaryFrame, isBackground: Bool, _ rules: BinaryRules
  ) throws(Refusal) -> Priority {
    switch frame.priority {
    case 5: return .powerSaving
    case nil: return isBackground ? .powerSaving : .immediate
    case 10:
      guard isBackground else { return .immediate }
      // "Binary Provider API" calls priority 10 an error for a push that contains only content-available; APNs
      // accepted such pushes anyway.
      guard !rules.refusesImmediateContentAvailable else { throw Refusal(.backgroundAtOnce) }
      return .powerSaving
    case 0 where rules.acceptsPriorityZero: return isBackground ? .powerSaving : .immediate
    case let other?: throw Refusal(.priorityUnknown(other))
    }
  }
}
