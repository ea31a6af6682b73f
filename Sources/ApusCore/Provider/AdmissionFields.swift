import ApusModel
import ApusWire

// The single fields of a request, in the order in which `Admission.examine` looks at them.

extension Admission {
  /// "apns-id: a canonical UUID". An empty field is a malformed one.
  static func requestedID(_ fields: borrowing RequestFields) throws(Refusal) -> NotificationID? {
    switch messageID(of: fields) {
    case .absent: return nil
    case .given(let id): return id
    case .malformed: throw Refusal(.malformed(.apnsID))
    }
  }

  /// "apns-expiration: a UNIX epoch date in seconds". Nil where the field is absent.
  static func expirationSeconds(_ fields: borrowing RequestFields) throws(Refusal) -> Int64? {
    guard fields.contains(.apnsExpiration) else { return nil }
    guard let seconds = DecimalInteger.parse(fields.value(.apnsExpiration)), seconds >= 0 else {
      throw Refusal(.malformed(.apnsExpiration))
    }
    return seconds
  }

  /// "apns-priority: 10, 5 or 1". Nil where the field is absent.
  static func priority(_ fields: borrowing RequestFields) throws(Refusal) -> Priority? {
    guard fields.contains(.apnsPriority) else { return nil }
    let value = fields.value(.apnsPriority)
    if value.equals("10") { return .immediate }
    if value.equals("5") { return .powerSaving }
    if value.equals("1") { return .whenActive }
    throw Refusal(.malformed(.apnsPriority))
  }

  /// The priority to deliver with.
  static func effectivePriority(
    _ explicit: Priority?, _ pushType: PushType?, _ scan: PayloadScan
  ) -> Priority {
    switch pushType {
    case .background:
      // The default is 10, which would be an error for this type. The request did not say so, and 5 is the one value
      // that the type is documented for: a sender that left the field out means that.
      return explicit ?? .powerSaving
    case nil where scan.onlyContentAvailable && explicit != .whenActive:
      // "Specifying priority 10 for a notification that contains only content-available is an error", says the page;
      // the service accepts such requests of old senders and treats them as 5.
      return .powerSaving
    default:
      return explicit ?? .immediate
    }
  }

  /// What step 7 finds out about a topic that is there and well-formed.
  struct TopicFacts {
    /// Nil when no registered app is behind it.
    var resolved: ResolvedTopic?
    var suitsPushType: Bool
    /// Whether the payload may have the size of a VoIP push. Where no push type is named the topic's text tells.
    var isVoIP: Bool

    init(_ topic: Span<UInt8>, _ pushType: PushType?, _ directory: Directory) {
      resolved = directory.resolve(topic)
      if let pushType {
        // Either reading of a registered bundle id that ends in a suffix will do: an app may be registered by its VoIP
        // topic alone.
        suitsPushType =
          resolved?.key.suffix == pushType.topicSuffix
          || TopicSuffix(of: topic) == pushType.topicSuffix
        isVoIP = pushType == .voip
      } else {
        suitsPushType = true
        isVoIP = topic.endsWith(TopicSuffix.voip.text)
      }
    }
  }

  /// The request's topic, or else that of its certificate.
  static func topic(
    _ fields: borrowing RequestFields, _ pushType: PushType?,
    _ connection: borrowing ProviderConnection, _ directory: Directory
  ) throws(Refusal) -> TopicFacts {
    guard fields.contains(.apnsTopic) else {
      // "If you're using certificate-based authentication and omit this header, APNs uses the certificate's Subject
      // UID"; with a certificate for several topics that is MissingTopic.
      guard let certificate = connection.certificate else { throw Refusal(.topicMissing) }
      guard !certificate.listsSeveralTopics else { throw Refusal(.topicMissingOfSeveral) }
      return TopicFacts(certificate.defaultTopic.span, pushType, directory)
    }
    let topic = fields.value(.apnsTopic)
    guard !topic.isEmpty else { throw Refusal(.topicMissing) }
    guard isTopicSyntax(topic) else { throw Refusal(.malformed(.apnsTopic)) }
    return TopicFacts(topic, pushType, directory)
  }

  /// The body: there, not too large, a JSON object with `aps`.
  static func scan(
    _ body: Span<UInt8>, byteCount: Int, limit: Int, needsAPS: Bool
  ) throws(Refusal) -> PayloadScan {
    guard byteCount > 0 else { throw Refusal(.payloadEmpty) }
    guard byteCount <= limit else {
      throw Refusal(.payloadTooLarge(byteCount: byteCount, limit: limit))
    }
    let scan: PayloadScan
    do throws(JSONFault) {
      scan = try PayloadScan(body)
    } catch {
      throw Refusal(.payloadNotJSON(error))
    }
    if needsAPS { try requireKeys(scan) }
    return scan
  }

  /// A payload is about a notification, or a push to a managed device: that has the one key `mdm`. Not asked of pushes
  /// to a file provider, which name a container and a domain ("Using push notifications to signal changes").
  static func requireKeys(_ scan: PayloadScan) throws(Refusal) {
    guard scan.hasAPS || scan.hasMDM else { throw Refusal(.payloadWithoutAPS) }
  }

  /// The last segment of the path, of which `examineHead` found the shape good.
  static func deviceToken(_ path: Span<UInt8>) throws(Refusal) -> DeviceToken {
    let start = Self.devicePathByteCount
    guard path.count > start else { throw Refusal(.deviceTokenMissing) }
    let digits = path.extracting(start..<path.count)
    if let token = DeviceToken(hex: digits) { return token }
    // The service mints tokens of 32 bytes only; Apple allows up to 100, so any other length is a foreign token.
    throw digits.count == 2 * DeviceToken.byteCount
      ? Refusal(.deviceTokenNotHex) : Refusal(.deviceTokenLength(digitCount: digits.count))
  }
}
