/// Hears of what happens to a client's connections and credentials. Called on the client's own thread, so it must not
/// block.
public protocol ClientObserver: Sendable {
  func client(_ event: ClientEvent)
}

/// What an observer is told. Open: later versions may know more.
public struct ClientEvent: Sendable, Hashable, CustomStringConvertible {
  public enum Kind: Sendable, Hashable {
    /// To an address and port.
    case connectionMade(String)
    /// Why.
    case connectionEnded(String)
    /// Why.
    case connectionFailed(String)
    /// The files of the credential changed, and new connections go by them.
    case credentialChanged
    /// The files of the credential changed and are no good: what was there goes on.
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
    case .credentialChanged: "the credential's files changed, and are used from now on"
    case .credentialRefused(let text): "the credential's files changed, and are no good: \(text)"
    case .clockDiffers(let seconds):
      "the service's clock is \(abs(seconds)) seconds \(seconds > 0 ? "ahead of" : "behind") "
        + "this machine's"
    }
  }
}

extension ClientObserver {
  func client(_ kind: ClientEvent.Kind) { client(ClientEvent(kind)) }
}
