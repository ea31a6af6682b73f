import ApusModel

/// The options of `apus cluster`.
package enum ClusterOptions {
  package static let code = Option(
    "--code", .text("CODE"), in: [Verb.cluster], group: .change, scope: .flagOnly,
    help: "With `join`: the code that `apus cluster init` or `invite` printed.")
  package static let address = Option(
    "--address", .text("HOST"), in: [Verb.cluster], group: .change, scope: .flagOnly,
    help: "With `init` and `join`: where clients reach the node, which `nodes` shows.")

  package static let parts = Option(
    "--parts", .integer("N", 1...Limits.deviceParts), in: [Verb.cluster], group: .change,
    scope: .flagOnly, default: "1",
    help:
      "With `init` and `divide`: into how many parts the devices are divided. As many nodes serve at the same time, "
      + "each one part; further nodes stand by.")

  package static let linkListen = Option(
    "--link-listen", .listen(port: 2193), in: [Verb.serve], group: .listeners, default: "off",
    help:
      "Listener of a node for the other nodes of its cluster; usually 2193. With it the node also accepts clients "
      + "while another node serves, and passes on to that one what they send.")

  package static let advertise = Option(
    "--advertise", .text("HOST"), in: [Verb.serve], group: .listeners,
    help:
      "With --link-listen: where devices reach this node directly. A device at another node is told while this one "
      + "serves, and connects there the next time.")

  package static let descriptions = [
    code.description, address.description, parts.description, linkListen.description,
    advertise.description,
  ]
}
