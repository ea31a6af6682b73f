package import ApusModel
import ApusWire

/// What a request to broadcast asks for, once its head and its fields are in order.
package struct BroadcastRequest: Sendable, Hashable {
  package var app: AppID
  /// Nil for a channel that this service cannot have created.
  package var channel: ChannelID?
  /// Unix seconds until which it is kept; 0 for one attempt.
  package var expirationSeconds: Int64
  package var priority: Priority
}

/// Decides whether a request becomes a broadcast: `POST /4/broadcasts/apps/BUNDLE-ID`.
///
/// As in ``Admission``, the order of the checks is part of the API: path and method; repeated fields; the credential
/// (``ProviderConnection/authenticate(_:directory:nowSeconds:verify:)``); `apns-request-id`; the app of the path;
/// `apns-channel-id`; `apns-push-type`; `apns-expiration`; `apns-priority`; whether the channel exists; the body.
///
/// Source: "Sending broadcast push notification requests to APNs", which documents no order.
package enum BroadcastAdmission {
  private static let prefix: StaticString = "/4/broadcasts/apps/"

  /// Whether a request with this path is one to broadcast, in order or not: it begins with `/4/`.
  @inline(__always)
  package static func concerns(_ path: Span<UInt8>) -> Bool {
    path.count > 2 && path[1] == 0x34 && path[0] == 0x2f && path[2] == 0x2f
  }

  /// Where the bundle id is in a path; nil for a path of another form.
  package static func bundle(in path: Span<UInt8>) -> Range<Int>? {
    let start = prefix.utf8CodeUnitCount
    guard path.count > start, path.extracting(0..<start).equals(prefix) else { return nil }
    let bundle = start..<path.count
    return bundle.allSatisfy { !separators.contains(path[$0]) } ? bundle : nil
  }

  /// The first checks, before the credential. Returns where the bundle id is in the path.
  package static func examineHead(
    _ fields: borrowing RequestFields, headerListTooLarge: Bool
  ) throws(Refusal) -> Range<Int> {
    if headerListTooLarge { throw Refusal(.headerListTooLarge) }
    guard let bundle = bundle(in: fields.value(.path)) else {
      throw Refusal(.channel(.broadcastPathUnknown))
    }
    guard fields.value(.method).equals("POST") else { throw Refusal(.methodNotPost) }
    for name in singleFields where fields.occurrences(of: name) > 1 {
      throw Refusal(.duplicate(name))
    }
    return bundle
  }

  /// A further segment, a query or a fragment makes it another path.
  private static let separators: [UInt8] = [0x2f, 0x3f, 0x23]

  private static let singleFields: [HeaderName] = [
    .method, .path, .scheme, .authority, .host, .authorization, .apnsID, .apnsRequestID,
    .apnsChannelID, .apnsPushType, .apnsExpiration, .apnsPriority,
  ]

  /// The id for the response. A sample of Apple's sends `apns-id` instead of `apns-request-id`.
  package static func requestID(of fields: borrowing RequestFields) -> MessageIDField {
    guard fields.contains(.apnsRequestID) || !fields.contains(.apnsID) else {
      return Admission.messageID(of: fields)
    }
    return ChannelAdmission.requestID(of: fields)
  }

  /// The checks behind the credential, up to the priority.
  package static func examine(
    bundle: Range<Int>, _ fields: borrowing RequestFields, grant: Grant,
    connection: borrowing ProviderConnection, directory: Directory
  ) throws(Refusal) -> BroadcastRequest {
    if requestID(of: fields) == .malformed { throw Refusal(.malformed(.apnsRequestID)) }
    let app = try ChannelAdmission.app(
      fields.value(.path).extracting(bundle), grant: grant, connection: connection,
      directory: directory)
    let channel = try ChannelAdmission.channelID(fields)
    guard fields.contains(.apnsPushType) else { throw Refusal(.channel(.broadcastTypeMissing)) }
    guard PushType(headerValue: fields.value(.apnsPushType)) == .liveactivity else {
      throw Refusal(.channel(.broadcastTypeUnknown))
    }
    guard let expiration = try Admission.expirationSeconds(fields) else {
      throw Refusal(.channel(.expirationMissing))
    }
    guard let priority = try Admission.priority(fields) else {
      throw Refusal(.channel(.priorityMissing))
    }
    return BroadcastRequest(
      app: app, channel: channel, expirationSeconds: expiration, priority: priority)
  }

  /// The check of the channel, which the driver has looked up: nil if it does not exist. Returns until when the
  /// broadcast is kept, in Unix seconds; 0 for one attempt.
  ///
  /// A channel that stores nothing takes no expiration. A time that has passed means one attempt, as for a
  /// notification; a later one is cut to `Limits.broadcastSeconds`.
  package static func storedUntil(
    _ request: BroadcastRequest, on channel: Channel?, nowSeconds: Int64
  ) throws(Refusal) -> Int64 {
    guard let channel else { throw Refusal(.channel(.unknown(request.app))) }
    guard request.expirationSeconds != 0 else { return 0 }
    guard channel.storage == .newest else { throw Refusal(.channel(.expirationWithoutStorage)) }
    guard request.expirationSeconds > nowSeconds else { return 0 }
    return min(request.expirationSeconds, nowSeconds + Limits.broadcastSeconds)
  }

  /// The check of the body: a JSON object with `aps` that does not start a Live Activity. `byteCount` is its size as
  /// received; `body` may end early once that is beyond the limit.
  ///
  /// "Starting and updating Live Activities with ActivityKit push notifications": a broadcast cannot start one.
  package static func examine(body: Span<UInt8>, byteCount: Int) throws(Refusal) {
    let scan = try Admission.scan(
      body, byteCount: byteCount, limit: Limits.broadcastPayloadBytes, needsAPS: false)
    guard scan.hasAPS else { throw Refusal(.payloadWithoutAPS) }
    let event = (try? JSONValue(parsing: body))?.object?["aps"]?.object?["event"]?.string
    if event == "start" { throw Refusal(.channel(.startsActivity)) }
  }
}
