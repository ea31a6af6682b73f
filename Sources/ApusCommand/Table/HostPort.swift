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

  static func port(_ digits: some StringProtocol) -> UInt16? {
    guard digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
    return UInt16(String(digits))
  }
}

/// Where a door listens.
package enum ListenAddresses: Sendable, Hashable {
  /// The door stays closed.
  case off
  /// Every address of the machine.
  case everywhere(port: UInt16)
  /// These, which are numbers, not names.
  case addresses([HostPort])
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

extension ValueSyntax where Value == ListenAddresses {
  static var listen: ValueSyntax {
    ValueSyntax("ADDRESS", completion: .words(["off"])) { text throws(ValueProblem) in
      if text == "off" { return .off }
      let digits = text.hasPrefix("*:") ? text.dropFirst(2) : text[...]
      if let port = HostPort.port(digits), !digits.isEmpty { return .everywhere(port: port) }
      var addresses: [HostPort] = []
      for part in text.split(separator: ",", omittingEmptySubsequences: false) {
        guard let address = HostPort(part), isNumeric(address.host) else {
          throw ValueProblem(
            "is neither a port, nor addresses such as 127.0.0.1:2197,[::1]:2197, nor off")
        }
        addresses.append(address)
      }
      return .addresses(addresses)
    }
  }

  /// Whether it can be an address in numbers; the system has the last word.
  private static func isNumeric(_ host: String) -> Bool {
    if host.contains(":") { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil && $0.first != "+" }
  }
}
