import ApusClient
import ApusCommand
import ApusDirectory
import ApusModel
import ApusRelay

/// The upstream of an app, as the service of the data directory reaches it.
struct DoctorUpstream {
  let configuration: ClientConfiguration
  /// The app's bundle id upstream.
  let topic: String
  let proxy: String?

  var endpoint: HostPort {
    HostPort(host: configuration.endpoint.host, port: configuration.endpoint.port)
  }

  /// - Parameter topic: The app's bundle id in this service.
  init(_ invocation: Invocation, _ topic: String) throws(CommandFailure) {
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    let upstream: Upstream
    do {
      upstream = try directory.trust(generation: 1, allowsES512: false).upstream(of: topic)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    var configuration = UpstreamAccount(upstream, .production).configuration()
    configuration.sendTimeoutSeconds = invocation.value(ApusOptions.timeout)
    configuration.connectTimeoutSeconds = min(
      configuration.connectTimeoutSeconds, configuration.sendTimeoutSeconds)
    self.configuration = configuration
    self.topic = upstream.bundleID ?? topic
    proxy = upstream.proxy.map { "\($0.host):\($0.port)" }
  }
}
