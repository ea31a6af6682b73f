/// The header fields that the provider API knows, spelled once for the service, the client and the tests.
///
/// Sources: "Sending notification requests to APNs" and "Sending channel management requests to APNs". Fields that are
/// not in this table are ignored, as Apple documents.
public enum HeaderName: UInt8, Sendable, CaseIterable, Hashable {
  case method
  case path
  case scheme
  case authority
  case host
  case authorization
  case apnsID
  case apnsPushType
  case apnsExpiration
  case apnsPriority
  case apnsTopic
  case apnsCollapseID
  case apnsRequestID
  case apnsChannelID
  case contentLength

  // Response fields.
  case status
  case contentType
  case apnsUniqueID

  /// The name on the wire, in lower case as HTTP/2 requires.
  @inlinable
  public var text: StaticString {
    switch self {
    case .method: ":method"
    case .path: ":path"
    case .scheme: ":scheme"
    case .authority: ":authority"
    case .host: "host"
    case .authorization: "authorization"
    case .apnsID: "apns-id"
    case .apnsPushType: "apns-push-type"
    case .apnsExpiration: "apns-expiration"
    case .apnsPriority: "apns-priority"
    case .apnsTopic: "apns-topic"
    case .apnsCollapseID: "apns-collapse-id"
    case .apnsRequestID: "apns-request-id"
    case .apnsChannelID: "apns-channel-id"
    case .contentLength: "content-length"
    case .status: ":status"
    case .contentType: "content-type"
    case .apnsUniqueID: "apns-unique-id"
    }
  }

  /// Looks up a name.
  ///
  /// The length leaves at most four candidates, so a lookup costs about one comparison.
  @inlinable
  public init?(_ name: Span<UInt8>) {
    let candidate: HeaderName
    switch name.count {
    case 4: candidate = .host
    case 5: candidate = .path
    case 7:
      guard name[0] == 0x3a else { candidate = .apnsID; break }
      switch name[1] {
      case 0x6d: candidate = .method
      case 0x73 where name[2] == 0x63: candidate = .scheme
      default: candidate = .status
      }
    case 10: candidate = name[0] == 0x3a ? .authority : .apnsTopic
    case 12: candidate = .contentType
    case 13: candidate = name[1] == 0x70 ? .apnsPriority : .authorization
    case 14:
      switch name[5] {
      case 0x75: candidate = .apnsUniqueID
      case 0x6e: candidate = .contentLength
      default: candidate = .apnsPushType
      }
    case 15:
      switch name[5] {
      case 0x65: candidate = .apnsExpiration
      case 0x63: candidate = .apnsChannelID
      default: candidate = .apnsRequestID
      }
    case 16: candidate = .apnsCollapseID
    default: return nil
    }
    guard name.equals(candidate.text) else { return nil }
    self = candidate
  }
}
