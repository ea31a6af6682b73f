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

  /// Who may have signed the certificate of a service's listener: the system's authorities (nil) for Apple's hosts and
  /// where the service of the data directory presents the certificate of another authority than its own; else those of
  /// the option or the data directory, as PEM.
  func authority(
    _ option: Option<String>, of place: HostPort, _ kind: ListenerKind
  ) throws(CommandFailure) -> [UInt8]? {
    if let path = self[option] {
      if path == "system" { return nil }
      return Array(try Process.text(of: path, for: option, self).utf8)
    }
    let directory = DataDirectory(path: value(ApusOptions.data))
    let presentsOther = directory.serviceAddresses?.listeners.contains {
      $0.kind == kind && $0.serverName == place.host && $0.address.port == place.port
    }
    if place.isApple || presentsOther == true { return nil }
    let path = directory.clientAuthorityFile
    guard let text = try Process.textIfPresent(path) else {
      var failure = missing(option.description)
      failure.problem = "--authority is missing, and \(path) does not exist"
      throw failure
    }
    return Array(text.utf8)
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
