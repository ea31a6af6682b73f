import ApusModel
import ApusWire

// The fields of a request, in the order in which `Admission.examine` checks them.

extension Admission {
  /// `apns-id` is a canonical UUID. An empty field is malformed.
  static func requestedID(_ fields: borrowing RequestFields) throws(Refusal) -> NotificationID? {
    switch messageID(of: fields) {
    case .absent: return nil
    case .given(let id): return id
    case .malformed: throw Refusal(.malformed(.apnsID))
    }
  }

  /// `apns-expiration` is in Unix seconds. Nil if the field is absent.
  static func expirationSeconds(_ fields: borrowing RequestFields) throws(Refusal) -> Int64? {
    guard fields.contains(.apnsExpiration) else { return nil }
    guard let seconds = DecimalInteger.parse(fields.value(.apnsExpiration)), seconds >= 0 else {
      throw Refusal(.malformed(.apnsExpiration))
    }
    return seconds
  }

  /// `apns-priority` is 10, 5 or 1. Nil if the field is absent.
  static func priority(_ fields: borrowing RequestFields) throws(Refusal) -> Priority? {
    guard fields.contains(.apnsPriority) else { return nil }
    let value = fields.value(.apnsPriority)
    if value.equals("10") { return .immediate }
    if value.equals("5") { return .powerSaving }
    if value.equals("1") { return .whenActive }
    throw Refusal(.malformed(.apnsPriority))
  }

  /// The priority for delivery.
  static func effectivePriority(
    _ explicit: Priority?, _ pushType: PushType?, _ scan: PayloadScan
  ) -> Priority {
    switch pushType {
    case .background:
      // The default is 10, which would be an error for this type. The request did not ask for it, and 5 is the only
      // value documented for the type, so a provider that omits the field means 5.
      return explicit ?? .powerSaving
    case nil where scan.onlyContentAvailable && explicit != .whenActive:
      // The page calls priority 10 an error for a notification that contains only content-available; APNs accepts such
      // requests of older providers and treats them as 5.
      return .powerSaving
    default:
      return explicit ?? .immediate
    }
  }

  /// The result of step 7 for a well-formed topic.
  struct TopicFacts {
    /// Nil if no registered app has it.
    var resolved: ResolvedTopic?
    var suitsPushType: Bool
    /// Whether the payload may have the size of a VoIP push. Without a push type, the topic's suffix decides.
    var isVoIP: Bool

    init(_ topic: Span<UInt8>, _ pushType: PushType?, _ directory: Directory) {
      resolved = directory.resolve(topic)
      if let pushType {
        // If a registered bundle id ends in a suffix, both readings are allowed: an app may be registered only under
        // its VoIP topic.
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

  /// The request's topic, or else its certificate's.
  static func topic(
    _ fields: borrowing RequestFields, _ pushType: PushType?,
    _ connection: borrowing ProviderConnection, _ directory: Directory
  ) throws(Refusal) -> TopicFacts {
    guard fields.contains(.apnsTopic) else {
      // "Sending notification requests to APNs": without apns-topic, the UID of the certificate's subject is the
      // topic; with a certificate for several topics this is MissingTopic.
      guard let certificate = connection.certificate else { throw Refusal(.topicMissing) }
      guard !certificate.listsSeveralTopics else { throw Refusal(.topicMissingOfSeveral) }
      return TopicFacts(certificate.defaultTopic.span, pushType, directory)
    }
    let topic = fields.value(.apnsTopic)
    guard !topic.isEmpty else { throw Refusal(.topicMissing) }
    guard isTopicSyntax(topic) else { throw Refusal(.malformed(.apnsTopic)) }
    return TopicFacts(topic, pushType, directory)
  }

  /// The body must be present, not too large, and a JSON object with `aps`.
  ///
  /// The reasons for device requests ("Handling notification responses from APNs") have none for a body that is not;
  /// BadRequestPayload is one of those for channels. Accepting it would mean a notification that no device can show.
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

  /// A payload is for a notification, or for a managed device with the single key `mdm`. Pushes to a file provider
  /// need neither: they name a container and a domain ("Using push notifications to signal changes").
  static func requireKeys(_ scan: PayloadScan) throws(Refusal) {
    guard scan.hasAPS || scan.hasMDM else { throw Refusal(.payloadWithoutAPS) }
  }

  /// The last segment of the path, whose shape `examineHead` has checked.
  static func deviceToken(_ path: Span<UInt8>) throws(Refusal) -> DeviceToken {
    let start = Self.devicePathByteCount
    guard path.count > start else { throw Refusal(.deviceTokenMissing) }
    let digits = path.extracting(start..<path.count)
    if let token = DeviceToken(hex: digits) { return token }
    // The service issues only tokens of 32 bytes; Apple allows up to 100, so a token of another length is foreign.
    throw digits.count == 2 * DeviceToken.byteCount
      ? Refusal(.deviceTokenNotHex) : Refusal(.deviceTokenLength(digitCount: digits.count))
  }
}
