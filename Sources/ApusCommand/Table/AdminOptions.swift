/// Whether a service has a UNIX socket for its administration.
package enum AdminSocketChoice: Sendable { case unix, off }

/// The options about administration.
package enum AdminOptions {
  // MARK: serve

  package static let socket = Option(
    "--admin", .choice("WHERE", [("unix", AdminSocketChoice.unix), ("off", .off)]),
    in: [Verb.serve], group: .doors, scope: .named("admin-socket"), default: "unix",
    help:
      "The administration on this machine: admin.sock in the data directory, for its owner (unix), or off."
  )
  package static let listen = Option(
    "--admin-listen", .listen(port: 2190), in: [Verb.serve], group: .doors, default: "off",
    help: "The administration from elsewhere: TLS, for those with a token of `apus admin`.")

  static let all: [OptionDescription] = [socket.description, listen.description]
}
