public import ApusModel

extension Endpoint {
  /// Where Apple manages channels. Source: Sending channel management requests to APNs.
  public static func appleChannels(_ environment: Environment) -> Endpoint {
    switch environment {
    case .production: Endpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    case .development: Endpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    }
  }

  /// Where the service behind this endpoint for pushes manages channels, as far as that is known.
  fileprivate var channels: Endpoint? {
    if host == "push.apple.com" || host.hasSuffix(".push.apple.com") {
      let labels = host.split(separator: ".")
      let isDevelopment = labels.contains("sandbox") || labels.contains("development")
      return .appleChannels(isDevelopment ? .development : .production)
    }
    // The default ports of Apus, for both environments.
    return switch port {
    case 2197: Endpoint(host: host, port: 2199)
    case 2198: Endpoint(host: host, port: 2200)
    default: nil
    }
  }
}

extension ClientConfiguration {
  /// The same for the endpoint where channels are managed. Requests there are rare: one connection, kept while it is
  /// used.
  func forChannels() throws(ClientConfigurationError) -> ClientConfiguration {
    guard let channels = channelsEndpoint ?? endpoint.channels else {
      throw ClientConfigurationError(
        "channelsEndpoint is missing: it cannot be derived from \"\(endpoint)\"")
    }
    var configuration = self
    configuration.endpoint = channels
    configuration.maximumConnections = 1
    configuration.idleConnections = 0
    return configuration
  }
}
