package import ApusModel

/// Whether the administration API listens on a UNIX socket.
package enum AdminSocketChoice: Sendable { case unix, off }

/// The options for administration.
package enum AdminOptions {
  // MARK: serve

  package static let socket = Option(
    "--admin", .choice("WHERE", [("unix", AdminSocketChoice.unix), ("off", .off)]),
    in: [Verb.serve], group: .listeners, scope: .named("admin-socket"), default: "unix",
    help:
      "Administration on this machine: admin.sock in the data directory, for its owner (unix), or off."
  )
  package static let listen = Option(
    "--admin-listen", .listen(port: 2190), in: [Verb.serve], group: .listeners, default: "off",
    help: "Listener for administration from other machines: TLS, with a token from `apus admin`.")
  package static let console = Option(
    "--console", .consoleEndpoint("[ADDRESS:]PORT"), in: [Verb.serve], group: .listeners,
    note: "off",
    help:
      "Listener for the web console: plain HTTP on 127.0.0.1 (the default), TLS on any other address."
  )

  // MARK: admin

  package static let scopes = Option(
    "--scopes", .adminScopes, in: [Verb.admin], group: .change, scope: .flagOnly,
    default: "read",
    help: "What the token permits: read, send, operate, trust, separated by commas.")
  package static let expires = Option(
    "--expires", .integer("DAYS", 1...3650), in: [Verb.admin], group: .change, scope: .flagOnly,
    note: "never", help: "Days after which the token expires.")

  // MARK: webhook

  package static let webhookName = Option(
    "--name", .text("NAME"), in: [Verb.webhook], group: .change, scope: .flagOnly,
    default: "default", help: "The name of the webhook to add.")
  package static let webhookEvents = Option(
    "--event", .text("EVENT"), in: [Verb.webhook], group: .change, scope: .flagOnly, note: "all",
    repeats: true, help: "An event to be told about. May be repeated.")
  package static let webhookAuthority = Option(
    "--authority", .file, in: [Verb.webhook], group: .change, scope: .flagOnly,
    note: "the system's authorities",
    help: "The authorities that the receiver's certificate is checked against (PEM).")
  package static let finishRotation = Option(
    "--finish", .flag, in: [Verb.webhook], group: .change, scope: .flagOnly,
    help: "With rotate: stop signing with the previous secret, and make no new one.")

  // MARK: Remote service

  /// The commands that can act on a remote service.
  private static let remote = [
    Verb.team, .app, .key, .cert, .device, .code, .rotate, .log, .status, .send, .job, .channel,
    .relay, .doctor,
  ]

  package static let url = Option(
    "--admin", .adminURL, in: remote, group: .elsewhere, scope: .named("admin"),
    note: "the data directory on this machine",
    help: "Act on a remote service: https://HOST:PORT of its --admin-listen.")
  /// The environment variable with the token itself. Never an option: every user of a machine can read all command
  /// lines.
  package static let tokenVariable = "APUS_ADMIN_TOKEN"
  package static let tokenFile = Option(
    "--token-file", .file, in: remote, group: .elsewhere, scope: .named("admin-token-file"),
    note: "the token itself in \(tokenVariable)",
    help: "A file with the token from `apus admin add`, readable only by its owner.")
  package static let authority = Option(
    "--admin-authority", .file, in: remote, group: .elsewhere,
    note: "authority/service.crt in the data directory, or else the system's authorities",
    help: "The certificate of the authority that signed that service's.")

  static let all: [OptionDescription] = [
    socket.description, listen.description, console.description, scopes.description,
    webhookName.description, webhookEvents.description, webhookAuthority.description,
    finishRotation.description,
    expires.description,
    url.description, tokenFile.description, authority.description,
  ]
}

extension ValueSyntax where Value == AdminScopes {
  static var adminScopes: ValueSyntax {
    ValueSyntax("SCOPES", completion: .words(AdminScopes.names.map(\.name))) {
      text throws(ValueProblem) in
      guard let scopes = AdminScopes(text: text) else {
        let names = AdminScopes.names.map(\.name).joined(separator: ", ")
        throw ValueProblem("is not a list of \(names), separated by commas")
      }
      return scopes
    }
  }
}

/// The URL of a remote administration listener: `https`, a host and a port, and nothing else.
package struct AdminURL: Sendable, Hashable, CustomStringConvertible {
  package var endpoint: HostPort

  package init(endpoint: HostPort) { self.endpoint = endpoint }

  package var description: String { "https://\(endpoint)" }
}

extension ValueSyntax where Value == AdminURL {
  static var adminURL: ValueSyntax {
    ValueSyntax("URL") { text throws(ValueProblem) in
      var rest = Substring(text)
      guard rest.lowercased().hasPrefix("https://") else {
        throw ValueProblem("is not https://HOST:PORT; a token must not be sent unencrypted")
      }
      rest = rest.dropFirst("https://".count)
      if rest.last == "/" { rest = rest.dropLast() }
      guard let endpoint = HostPort(rest), endpoint.port > 0,
        !endpoint.host.contains(where: { "/@?#%".contains($0) })
      else { throw ValueProblem("is not https://HOST:PORT alone") }
      return AdminURL(endpoint: endpoint)
    }
  }
}
