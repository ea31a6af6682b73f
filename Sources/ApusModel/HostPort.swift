/// A host, as a name or a numeric address, and a port.
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

  /// Whether two numeric addresses bind the same port of the same address. With SO_REUSEPORT the kernel would allow
  /// this and spread connections between two listeners with different meanings.
  package func collides(with other: HostPort) -> Bool {
    let isIPv6 = host.contains(":")
    guard port == other.port, port != 0, isIPv6 == other.host.contains(":") else { return false }
    let every = isIPv6 ? "::" : "0.0.0.0"
    return host == other.host || host == every || other.host == every
  }

  package static func port(_ digits: some StringProtocol) -> UInt16? {
    guard digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
    return UInt16(String(digits))
  }
}
