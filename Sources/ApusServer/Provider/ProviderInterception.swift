import ApusCore
import ApusHTTP2
import ApusModel
import ApusWire

/// What a provider's connection tells an interceptor, and asks it, in the order in which it happens. There is one for
/// each connection of the development service, and none in a normal service.
protocol ProviderInterception: AnyObject {
  /// Whether credentials, topics and device tokens are accepted that the service would reject.
  var isLenient: Bool { get }

  // MARK: The HTTP/2 API

  /// Changes how a session begins.
  ///
  /// - Parameter hasRaisedLimit: Whether the session keeps its initial limit of streams.
  func adjust(_ session: inout HTTP2ServerSession.Configuration, _ hasRaisedLimit: inout Bool)
  /// What a certificate authorizes in lenient mode that the service rejects.
  func forgive(_ refusal: Refusal, of connection: Connection) -> ProviderConnection
  /// Decides on a request in place of the provider.
  func decide(_ request: HTTP2Request, of provider: HTTP2Provider)
  /// A request is about to be rejected.
  func willReject(_ request: HTTP2Request, _ refusal: Refusal, of provider: HTTP2Provider)
  /// A request was rejected.
  ///
  /// - Parameter id: The `apns-id` of the answer; nil if the provider named it.
  func rejected(
    _ request: HTTP2Request, _ rejection: Rejection, _ id: NotificationID?,
    of provider: HTTP2Provider)
  func accepted(_ open: OpenRequest, of provider: HTTP2Provider)
  /// Upstream has answered a request, or never will.
  func forwarded(
    _ request: HTTP2Request, _ answer: UpstreamAnswer, _ facts: NotificationFacts,
    of provider: HTTP2Provider)
  /// A broadcast was accepted.
  ///
  /// - Parameter id: The `apns-request-id` of the answer; nil if the provider named it.
  func accepted(
    _ request: HTTP2Request, _ id: NotificationID?, unique: NotificationID,
    of provider: HTTP2Provider)
  /// Writes the last bytes in place of the provider; nil if the provider is to write as usual.
  func flush(_ provider: HTTP2Provider) -> Connection.Ending?
  func drain(_ provider: HTTP2Provider)
  func connectionClosed(_ provider: HTTP2Provider)

  // MARK: The binary interface

  /// What a certificate authorizes in lenient mode that the service rejects; nil if it is to be refused.
  func forgive(_ refusal: Refusal, of connection: Connection) -> BinarySender?
  /// Reads and decides in place of the provider.
  func receive(_ input: Span<UInt8>, of provider: BinaryProvider)
  /// A frame was decided on.
  func decided(_ sequence: UInt32, _ rejection: Rejection?, of provider: BinaryProvider)
  /// Whether nothing is to be written for now.
  func holdsBack(_ provider: BinaryProvider) -> Bool
  /// Ends the connection in place of the provider; nil if the provider is to end it as usual.
  func end(_ packet: BinaryErrorPacket?, of provider: BinaryProvider) -> Connection.Ending?
  func connectionClosed(_ provider: BinaryProvider)
  /// The connection ends before its protocol has begun.
  func connectionClosed()
}
