import ApusCore
import ApusHTTP2
import ApusModel

/// A provider that has shown a valid credential, with the requests that it has begun.
final class HandedOverProvider: HandedOverState {
  let session: HTTP2ServerSession
  var sender: ProviderConnection

  init(_ session: HTTP2ServerSession, _ sender: consuming ProviderConnection) {
    self.session = session
    self.sender = sender
  }

  var device: DeviceID? { nil }
  var unread: [UInt8] { [] }
}
