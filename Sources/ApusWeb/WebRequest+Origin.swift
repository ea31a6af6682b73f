// Checks of a request before its body is read: its origin, and the type of its body.

extension WebRequest {
  /// Why a loopback server rejects the request; nil if it does not.
  ///
  /// Another site could point its name at our address (DNS rebinding); its requests then have that name.
  package var foreignHost: String? {
    let hosts = values("host")
    guard hosts.count == 1, Self.isLoopback(host: hosts[0]) else {
      return "the host must be localhost, 127.0.0.1 or [::1]"
    }
    return nil
  }

  /// Whether the value of a `Host` field, with or without a port, is loopback.
  package static func isLoopback(host: String) -> Bool {
    var name = host[...]
    if let colon = name.lastIndex(of: ":"), name.last != "]" {
      guard name[name.index(after: colon)...].allSatisfy(\.isNumber) else { return false }
      name = name[..<colon]
    }
    return ["localhost", "127.0.0.1", "[::1]"].contains(name.lowercased())
  }

  /// Why a request that may change something is rejected: a page of another site sent it. Nil otherwise. Browsers name
  /// the site in all such requests.
  ///
  /// - Parameter scheme: The server's scheme, `http` or `https`.
  package func foreignOrigin(scheme: String) -> String? {
    guard method != "GET", method != "HEAD" else { return nil }
    let own = values("host").first.map { "\(scheme)://\($0)" }
    return values("origin").first { $0 != own }.map {
      "the request comes from another site, \($0)"
    }
  }

  /// Whether the head announces a body.
  package var announcesBody: Bool {
    !values("transfer-encoding").isEmpty || values("content-length").contains { Int($0) != 0 }
  }

  /// The media type of the body, without parameters and in lower case; empty if missing.
  package var mediaType: String {
    let type = values("content-type").first ?? ""
    return type.prefix { $0 != ";" }.lowercased().filter { $0 != " " && $0 != "\t" }
  }

  /// The error message for a body that is not JSON.
  package var isNotJSON: String {
    let type = values("content-type").first ?? ""
    return "the content type must be application/json, but is " + (type.isEmpty ? "missing" : type)
  }
}
