package import ApusModel

/// The addresses of a listener option.
package struct ListenAddresses: Sendable, Hashable {
  /// Empty if the listener is off.
  package var list: [ListenAddress]

  package init(_ list: [ListenAddress]) { self.list = list }

  package static let off = ListenAddresses([])

  /// The addresses grouped by their modifiers, each group for one listener; in the order in which they were given.
  package var groups: [(modifiers: Set<ListenModifier>, endpoints: [ListenAddress.Endpoint])] {
    var groups: [(modifiers: Set<ListenModifier>, endpoints: [ListenAddress.Endpoint])] = []
    for listener in list {
      if let index = groups.firstIndex(where: { $0.modifiers == listener.modifiers }) {
        groups[index].endpoints.append(listener.endpoint)
      } else {
        groups.append((listener.modifiers, [listener.endpoint]))
      }
    }
    return groups
  }
}

/// One address of a listener, and its modifiers.
package struct ListenAddress: Sendable, Hashable {
  package enum Endpoint: Sendable, Hashable {
    /// Every address of the machine.
    case everywhere(port: UInt16)
    /// A numeric address, not a name.
    case address(HostPort)
  }

  package var endpoint: Endpoint
  package var modifiers: Set<ListenModifier>

  package init(_ endpoint: Endpoint, _ modifiers: Set<ListenModifier> = []) {
    self.endpoint = endpoint
    self.modifiers = modifiers
  }
}

extension ValueSyntax where Value == ListenAddresses {
  /// - Parameters:
  ///   - port: The default port, for examples.
  ///   - allowed: The modifiers that a listener of this kind accepts.
  static func listen(port: UInt16, allowed: Set<ListenModifier> = []) -> ValueSyntax {
    let offered = ListenModifier.allCases.filter(allowed.contains).map { "\(port)\($0.text)" }
    return ValueSyntax("ADDRESS", completion: .words(["off"] + offered)) {
      text throws(ValueProblem) in
      if text == "off" { return .off }
      var list: [ListenAddress] = []
      for part in text.split(separator: ",", omittingEmptySubsequences: false) {
        let pieces = part.split(separator: "+", omittingEmptySubsequences: false)
        if pieces.count > 1, pieces[0] == "off" {
          throw ValueProblem("has a modifier after off; a listener that is off takes none")
        }
        guard let endpoint = ListenAddress.Endpoint(pieces[0]) else {
          throw ValueProblem(
            "is neither a port, nor addresses separated by commas such as "
              + "127.0.0.1:\(port),[::1]:\(port), nor off")
        }
        list.append(
          ListenAddress(endpoint, try ListenModifier.read(pieces.dropFirst(), allowed: allowed)))
      }
      return ListenAddresses(list)
    }
  }
}

extension ListenAddress.Endpoint {
  /// Reads `2197`, `*:2197`, `127.0.0.1:2197` or `[::1]:2197`; nil for anything else, including host names.
  fileprivate init?(_ text: Substring) {
    let digits = text.hasPrefix("*:") ? text.dropFirst(2) : text
    if !digits.isEmpty, let port = HostPort.port(digits) {
      self = .everywhere(port: port)
    } else if let address = HostPort(text), Self.isNumeric(address.host) {
      self = .address(address)
    } else {
      return nil
    }
  }

  /// Whether `host` looks like a numeric address; the system makes the final check.
  static func isNumeric(_ host: String) -> Bool {
    if host.contains(":") { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil && $0.first != "+" }
  }

  /// A numeric address without a port, without the brackets of IPv6; nil for anything else.
  static func bareHost(_ text: String) -> String? {
    let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
    let host = isBracketed ? String(text.dropFirst().dropLast()) : text
    // With one colon it is neither an IPv6 address nor a bare host.
    let colons = host.count { $0 == ":" }
    return isNumeric(host) && colons != 1 && (!isBracketed || colons > 1) ? host : nil
  }
}

extension ValueSyntax where Value == String {
  /// An IPv4 or IPv6 address without a port; the value has no brackets.
  static var numericAddress: ValueSyntax {
    ValueSyntax("ADDRESS") { text throws(ValueProblem) in
      guard let host = ListenAddress.Endpoint.bareHost(text) else {
        throw ValueProblem("is not a numeric address without a port, such as 0.0.0.0 or ::")
      }
      return host
    }
  }
}
