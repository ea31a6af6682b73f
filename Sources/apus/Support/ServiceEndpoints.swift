import ApusCommand
import ApusDirectory
import ApusLoop
import ApusModel

extension Invocation {
  /// The service's listener for providers.
  var provider: HostPort { endpoint(ApusOptions.provider, .provider) }
  /// The service's listeners for devices, at least one.
  var couriers: [HostPort] { endpoints(ApusOptions.courier, .courier) }
  /// The service's feedback listener.
  var feedback: HostPort { endpoint(FeedbackOptions.service, .feedback) }

  /// Whether the service of the data directory presents the certificate of an authority other than its own there.
  func isOfOtherAuthority(_ provider: HostPort) -> Bool {
    let running = DataDirectory(path: value(ApusOptions.data)).serviceAddresses
    return running?.listeners.contains {
      $0.kind == .provider && $0.serverName == provider.host && $0.address.port == provider.port
    } == true
  }

  /// The option's value, or where the service of the data directory listens, or the option's default.
  private func endpoint(_ option: Option<HostPort>, _ kind: ListenerKind) -> HostPort {
    endpoints(option, kind)[0]
  }

  private func endpoints(_ option: Option<HostPort>, _ kind: ListenerKind) -> [HostPort] {
    guard !isGiven(option) else { return all(option) }
    let running = DataDirectory(path: value(ApusOptions.data)).serviceAddresses
    guard let (host, port) = running?.endpoint(kind) else { return all(option) }
    return [HostPort(host: host, port: port)]
  }
}
