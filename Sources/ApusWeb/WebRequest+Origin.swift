// What a request tells before its body is read: where it comes from, and what its body is.

extension WebRequest {
  /// Why a server of this machine alone does not answer it; nil where it does.
  ///
  /// A site elsewhere could give its own name our address (DNS rebinding); its requests then say that name.
  package var foreignHost: String? {
    let hosts = values("host")
    guard hosts.count == 1, Self.isLoopback(host: hosts[0]) else {
      return "the request was sent to another name than localhost, 127.0.0.1 or [::1]"
    }
    return nil
  }

  /// Whether what a `Host` field says, with a port or without, is this machine.
  package static func isLoopback(host: String) -> Bool {
    var name = host[...]
    if let colon = name.lastIndex(of: ":"), name.last != "]" {
      guard name[name.index(after: colon)...].allSatisfy(\.isNumber) else { return false }
      name = name[..<colon]
    }
    return ["localhost", "127.0.0.1", "[::1]"].contains(name.lowercased())
  }

  /// Why a request that may change something is not answered: it comes from a page of another site. Nil where it does
  /// not. Browsers name the site in all such requests.
  ///
  /// - Parameter scheme: `http` or `https`: that of the server.
  package func foreignOrigin(scheme: String) -> String? {
    guard method != "GET", method != "HEAD" else { return nil }
    let own = values("host").first.map { "\(scheme)://\($0)" }
    return values("origin").first { $0 != own }.map {
      "the request comes from another site, \($0)"
    }
  }

  /// Whether its head says that a body follows.
  package var announcesBody: Bool {
    !values("transfer-encoding").isEmpty || values("content-length").contains { Int($0) != 0 }
  }

  /// The media type of the body without its parameters, in lower case; empty where none is said.
  package var mediaType: String {
    let type = values("content-type").first ?? ""
    return type.prefix { $0 != ";" }.lowercased().filter { $0 != " " && $0 != "\t" }
  }

  /// In words: that the body is not JSON, and what it says it is.
  package var isNotJSON: String {
    let type = values("content-type").first ?? ""
    return "the content must be application/json, and says " + (type.isEmpty ? "nothing" : type)
  }
}
