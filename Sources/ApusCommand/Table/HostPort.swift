/// A host, by name or by number, and a port.
package struct HostPort: Sendable, Hashable, CustomStringConvertible {
  /// Without the brackets of an IPv6 address.
  package var host: String
  package var port: UInt16

  package init(host: String, port: UInt16) {
    self.host = host
    self.port = port
  }

  package var description: String {
    host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  /// Reads `localhost:2197`, `192.0.2.1:2197` or `[2001:db8::1]:2197`; nil for anything else.
  package init?(_ text: some StringProtocol) {
    guard let colon = text.lastIndex(of: ":"),
      let port = Self.port(text[text.index(after: colon)...])
    else { return nil }
    var host = String(text[..<colon])
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = String(host.dropFirst().dropLast())
      guard host.contains(":") else { return nil }
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty, host.utf8.allSatisfy({ 0x21...0x7e ~= $0 }) else { return nil }
    self.init(host: host, port: port)
  }

  /// Whether both, addresses in numbers, want one port of one address. The kernel would let them have it, and spread
  /// the connections between two doors that mean different things (SO_REUSEPORT).
  package func collides(with other: HostPort) -> Bool {
    let isIPv6 = host.contains(":")
    guard port == other.port, port != 0, isIPv6 == other.host.contains(":") else { return false }
    let every = isIPv6 ? "::" : "0.0.0.0"
    return host == other.host || host == every || other.host == every
  }

  static func port(_ digits: some StringProtocol) -> UInt16? {
    guard digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
    return UInt16(String(digits))
  }
}

extension ValueSyntax where Value == HostPort {
  static var hostPort: ValueSyntax {
    ValueSyntax("HOST:PORT") { text throws(ValueProblem) in
      guard let address = HostPort(text), address.port > 0 else {
        throw ValueProblem(
          "is not a host and a port such as localhost:2197 or [2001:db8::1]:2197")
      }
      return address
    }
  }
}
