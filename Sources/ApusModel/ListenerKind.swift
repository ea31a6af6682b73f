/// What is spoken at a listener.
public enum ListenerKind: String, Sendable, CaseIterable {
  /// The HTTP/2 provider API.
  case provider = "http2"
  /// Devices.
  case courier
  /// The binary provider interface.
  case gateway
  /// The feedback service of the binary interface.
  case feedback
  /// Where providers manage channels, over HTTP/2.
  case channels
  /// Other nodes of the cluster.
  case link

  /// From 0 on, in the order of the cases.
  package var index: Int {
    switch self {
    case .provider: 0
    case .courier: 1
    case .gateway: 2
    case .feedback: 3
    case .channels: 4
    case .link: 5
    }
  }
}
