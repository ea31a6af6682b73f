/// The options of `apus cluster`.
package enum ClusterOptions {
  package static let code = Option(
    "--code", .text("CODE"), in: [Verb.cluster], group: .change, scope: .flagOnly,
    help: "With `join`: the code that `apus cluster init` or `invite` printed.")
  package static let address = Option(
    "--address", .text("HOST"), in: [Verb.cluster], group: .change, scope: .flagOnly,
    help: "With `init` and `join`: where clients reach the node, which `nodes` shows.")

  package static let descriptions = [code.description, address.description]
}
