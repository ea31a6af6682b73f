import ApusLoop

extension Upstream.Service {
  /// How it is written in `directory.conf`, in options and in the administration API.
  static let form = "apple, apple-sandbox or https://HOST[:PORT]"

  /// Reads ``form``; the default port is 443.
  ///
  /// - Throws: What is wrong with the text.
  package init(_ text: String) throws(DirectoryProblem) {
    switch text {
    case "apple": self = .apple
    case "apple-sandbox": self = .appleSandbox
    default:
      let scheme = "https://"
      guard text.hasPrefix(scheme) else {
        throw DirectoryProblem(
          text.hasPrefix("http://")
            ? "an upstream needs TLS: write https://, not http://"
            : "the upstream \"\(text)\" is not \(Self.form)")
      }
      let place = text.dropFirst(scheme.count)
      // The text is not shown: it may contain a password.
      guard !place.contains(where: { "/?#@".contains($0) }) else {
        throw DirectoryProblem(
          "the URL of an upstream has only a host and a port: leave out user, path and query")
      }
      guard let (host, port) = HostAndPort.read(place, defaultPort: 443) else {
        throw DirectoryProblem("the upstream \"\(text)\" has no valid host and port")
      }
      self = .other(host: host, port: port)
    }
  }

  /// In the form that `init(_:)` reads.
  package var text: String {
    switch self {
    case .apple: "apple"
    case .appleSandbox: "apple-sandbox"
    case .other(let host, 443): "https://\(HostAndPort.bracketed(host))"
    case .other(let host, let port): "https://\(HostAndPort.bracketed(host)):\(port)"
    }
  }
}

extension Upstream.Proxy {
  /// Reads `[http://][USER@]HOST:PORT`.
  ///
  /// - Throws: What is wrong with the text.
  package init(_ text: String) throws(DirectoryProblem) {
    let scheme = "http://"
    let rest = text.hasPrefix(scheme) ? text.dropFirst(scheme.count) : text[...]
    let at = rest.lastIndex(of: "@")
    let user = at.map { String(rest[..<$0]) }
    let place = at.map { rest[rest.index(after: $0)...] } ?? rest
    // The text is not shown: it may contain a password.
    guard let (host, port) = HostAndPort.read(place, defaultPort: nil) else {
      throw DirectoryProblem("an upstream's proxy must have the form [http://][USER@]HOST:PORT")
    }
    if let user { try Self.check(user: user) }
    self.init(host: host, port: port, user: user)
  }

  /// - Parameter address: `HOST:PORT`.
  /// - Throws: What is wrong with either.
  package init(address: String, user: String?) throws(DirectoryProblem) {
    guard let (host, port) = HostAndPort.read(address[...], defaultPort: nil) else {
      throw DirectoryProblem("an upstream's proxy must have the form HOST:PORT")
    }
    if let user { try Self.check(user: user) }
    self.init(host: host, port: port, user: user)
  }

  /// RFC 7617, section 2: no colon and no control characters.
  private static func check(user: String) throws(DirectoryProblem) {
    let isFit =
      1...256 ~= user.utf8.count && user.trimmed == user
      && user.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f && $0 != ":" }
    guard isFit else {
      throw DirectoryProblem(
        "the proxy's user must have 1 to 256 bytes, without colons and control characters; its "
          + "password is a file of its own")
    }
  }

  /// `HOST:PORT`.
  package var address: String { "\(HostAndPort.bracketed(host)):\(port)" }
}

enum HostAndPort {
  /// Reads `push.example.com:443`, `192.0.2.1:443` or `[2001:db8::1]:443`; nil for anything else.
  ///
  /// - Parameter defaultPort: If the text has none; nil if it must have one.
  static func read(_ text: Substring, defaultPort: UInt16?) -> (host: String, port: UInt16)? {
    let end: Substring.Index
    if text.first == "[" {
      guard let bracket = text.firstIndex(of: "]") else { return nil }
      end = text.index(after: bracket)
    } else {
      end = text.firstIndex(of: ":") ?? text.endIndex
    }
    let (host, rest) = (text[..<end], text[end...])
    guard isHost(host) else { return nil }
    let name = host.first == "[" ? host.dropFirst().dropLast() : host
    if rest.isEmpty { return defaultPort.map { (String(name), $0) } }
    let digits = rest.dropFirst()
    guard rest.first == ":", digits.utf8.allSatisfy({ $0 &- 0x30 < 10 }),
      let port = UInt16(digits), port > 0
    else { return nil }
    return (String(name), port)
  }

  /// As in a URL.
  static func bracketed(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }

  /// RFC 1123, section 2.1, plus the underscore that container networks use in names. A last label of digits makes it
  /// an address (RFC 3696, section 2).
  private static func isHost(_ host: Substring) -> Bool {
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    if host.first == "[" || labels.last?.utf8.allSatisfy({ $0 &- 0x30 < 10 }) == true {
      return !host.contains("%") && (try? SocketAddress("\(host):1")) != nil
    }
    let hyphen = UInt8(ascii: "-")
    return host.utf8.count <= 253
      && labels.allSatisfy { label in
        1...63 ~= label.utf8.count && label.utf8.first != hyphen && label.utf8.last != hyphen
          && label.utf8.allSatisfy {
            $0 &- 0x30 < 10 || ($0 | 0x20) &- 0x61 < 26 || $0 == hyphen || $0 == UInt8(ascii: "_")
          }
      }
  }
}
