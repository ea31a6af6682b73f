/// Receives events about a client's connections and credentials. Called on the client's own thread, so it must not
/// block.
public protocol ClientObserver: Sendable {
  func client(_ event: ClientEvent)
}

/// An event for an observer. Open: later versions may add more.
public struct ClientEvent: Sendable, Hashable, CustomStringConvertible {
  public enum Kind: Sendable, Hashable {
    /// With address and port.
    case connectionMade(String)
    /// With the reason.
    case connectionEnded(String)
    /// With the reason.
    case connectionFailed(String)
    /// The credential files changed, and new connections use them.
    case credentialChanged
    /// The credential files changed but are invalid; the previous credential stays in use.
    case credentialRefused(String)
    /// How many seconds the service's clock is ahead of this machine's: enough to make tokens expire early.
    case clockDiffers(seconds: Int64)
  }

  public var kind: Kind

  init(_ kind: Kind) { self.kind = kind }

  public var description: String {
    switch kind {
    case .connectionMade(let address): "connected to \(address)"
    case .connectionEnded(let text): "a connection ended: \(text)"
    case .connectionFailed(let text): "no connection: \(text)"
    case .credentialChanged: "the credential files changed and are now in use"
    case .credentialRefused(let text): "the credential files changed but are invalid: \(text)"
    case .clockDiffers(let seconds):
      "the service's clock is \(abs(seconds)) seconds \(seconds > 0 ? "ahead of" : "behind") "
        + "this machine's"
    }
  }
}

extension ClientObserver {
  func client(_ kind: ClientEvent.Kind) { client(ClientEvent(kind)) }
}
