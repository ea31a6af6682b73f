package import ApusModel
import ApusWire

/// What a request of the channel management API asks for.
package enum ChannelOperation: Sendable, Hashable {
  case create
  case read
  case delete
  case list
}

/// A request whose head is in order; the app is named by the path.
package struct ChannelHead: Sendable, Hashable {
  package var operation: ChannelOperation
  /// Where the bundle id is in the path.
  package var bundle: Range<Int>
}

/// Decides whether a request of the channel management API may be carried out.
///
/// As in ``Admission``, the order of the checks is part of the API: path and method; repeated fields; the credential
/// (``ProviderConnection/authenticate(_:directory:nowSeconds:verify:)``); `apns-request-id`; the app of the path;
/// `apns-channel-id`; the body. Apple documents no order. The app comes before the channel, so that nobody learns about
/// the channels of others.
package enum ChannelAdmission {
  /// The first checks, before the credential.
  package static func examineHead(
    _ fields: borrowing RequestFields, headerListTooLarge: Bool
  ) throws(Refusal) -> ChannelHead {
    if headerListTooLarge { throw Refusal(.headerListTooLarge) }
    guard let (path, bundle) = ChannelPath.parse(fields.value(.path)) else {
      throw Refusal(.channel(.pathUnknown))
    }
    let operation = try operation(of: fields.value(.method), on: path)
    for name in singleFields where fields.occurrences(of: name) > 1 {
      throw Refusal(.duplicate(name))
    }
    return ChannelHead(operation: operation, bundle: bundle)
  }

  private static let singleFields: [HeaderName] = [
    .method, .path, .scheme, .authority, .host, .authorization, .apnsRequestID, .apnsChannelID,
  ]

  private static func operation(
    of method: Span<UInt8>, on path: ChannelPath
  ) throws(Refusal) -> ChannelOperation {
    let isRead = method.equals("GET")
    switch path {
    case .allChannels where isRead: return .list
    case .channels where isRead: return .read
    case .channels where method.equals("POST"): return .create
    case .channels where method.equals("DELETE"): return .delete
    default: throw Refusal(.channel(.methodUnknown(path)))
    }
  }

  /// The id for the response.
  package static func requestID(of fields: borrowing RequestFields) -> MessageIDField {
    guard fields.contains(.apnsRequestID) else { return .absent }
    return NotificationID(text: fields.value(.apnsRequestID)).map { .given($0) } ?? .malformed
  }

  /// The checks behind the credential: whether it covers the app of the path, and the app has broadcasts.
  package static func examineApp(
    _ head: ChannelHead, _ fields: borrowing RequestFields, grant: Grant,
    connection: borrowing ProviderConnection, directory: Directory
  ) throws(Refusal) -> AppID {
    if requestID(of: fields) == .malformed { throw Refusal(.malformed(.apnsRequestID)) }
    return try app(
      fields.value(.path).extracting(head.bundle), grant: grant, connection: connection,
      directory: directory)
  }

  /// The app with a bundle id, if the credential covers it and it has broadcasts.
  static func app(
    _ bundle: Span<UInt8>, grant: Grant, connection: borrowing ProviderConnection,
    directory: Directory
  ) throws(Refusal) -> AppID {
    let app = try registered(bundle, in: directory)
    guard app.team == grant.team else {
      throw Refusal(
        .channel(.bundleOfOtherTeam(app: app.id, owner: app.team, team: grant.team)))
    }
    switch grant.scope {
    case .team: break
    case .key(let key):
      guard directory.covers(app.id, key: key) else {
        throw Refusal(.channel(.bundleNotOfKey(app: app.id, key: key)))
      }
    case .certificate:
      guard connection.certificateTopics.contains(where: { $0.app == app.id }) else {
        throw Refusal(.channel(.bundleNotOfCertificate(app: app.id)))
      }
    }
    guard app.broadcasts else { throw Refusal(.channel(.broadcastsOff(app.id))) }
    return app.id
  }

  /// The app with a bundle id, whichever team it belongs to.
  package static func registered(
    _ bundle: Span<UInt8>, in directory: Directory
  ) throws(Refusal) -> App {
    guard let app = directory.app(bundleID: bundle) else {
      let suffix = TopicSuffix(of: bundle)
      throw Refusal(.channel(suffix == .none ? .bundleUnknown : .bundleWithSuffix))
    }
    return app
  }

  /// The channel that the request names; nil for one that this service cannot have issued.
  package static func channelID(_ fields: borrowing RequestFields) throws(Refusal) -> ChannelID? {
    let text = fields.value(.apnsChannelID)
    guard !text.isEmpty else { throw Refusal(.channel(.idMissing)) }
    guard let bytes = Base64.decode(text), !bytes.isEmpty else {
      throw Refusal(.channel(.idNotBase64))
    }
    guard bytes.count <= Limits.channelIDBytes else {
      throw Refusal(.channel(.idTooLong(byteCount: bytes.count)))
    }
    return ChannelID(bytes: bytes.span)
  }
}
