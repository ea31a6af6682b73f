package import ApusModel

/// The address of a console listener; nil parts have their defaults.
package struct ConsoleEndpoint: Sendable, Hashable {
  /// A numeric address, without the brackets of IPv6.
  package var host: String?
  package var port: UInt16?

  /// Reads `2191`, `192.0.2.1`, `192.0.2.1:2191`, `::1`, `[::1]` or `[::1]:2191`; nil for anything else.
  init?(_ text: String) {
    if !text.isEmpty, let port = HostPort.port(text) {
      self.port = port
    } else if let whole = HostPort(text), ListenAddress.Endpoint.isNumeric(whole.host) {
      (host, port) = (whole.host, whole.port)
    } else {
      guard let host = ListenAddress.Endpoint.bareHost(text) else { return nil }
      self.host = host
    }
  }

  /// With defaults for the missing parts.
  package func address(host: String, port: UInt16) -> HostPort {
    HostPort(host: self.host ?? host, port: self.port ?? port)
  }
}

extension ValueSyntax where Value == ConsoleEndpoint {
  static func consoleEndpoint(_ placeholder: String) -> ValueSyntax {
    ValueSyntax(placeholder) { text throws(ValueProblem) in
      guard let endpoint = ConsoleEndpoint(text) else {
        throw ValueProblem(
          "is neither a port, nor a numeric address, nor both, as in 127.0.0.1:2191")
      }
      return endpoint
    }
  }
}
