import ApusCore
import ApusModel

// The nodes of a cluster, and the links between them.

extension AdminMetrics {
  /// A service of its own serves, and has no nodes.
  mutating func writeNodes() {
    if let cluster = view.cluster {
      writer.family("apus_node_info", .gauge, "The name of the node in its cluster.")
      writer.sample(["node": cluster.own], 1)
    }
    writer.family(
      "apus_node_serving", .gauge, "Whether this node decides about devices.")
    writer.sample([:], view.service.share.isEmpty ? 0 : 1)
    writer.family("apus_node_draining", .gauge, "Whether an operator drains this node.")
    writer.sample([:], view.cluster?.isDraining == true ? 1 : 0)
    writer.family("apus_cluster_nodes", .gauge, "Nodes of the cluster, as this one sees them.")
    let nodes = view.cluster?.all() ?? []
    for state in ClusterNode.shownStates {
      writer.sample(["state": state], nodes.count { $0.shownState == state })
    }
    writer.family(
      "apus_cluster_parts", .gauge, "Parts of the cluster's devices with a node, and without one.")
    let served = Set(nodes.filter(\.isLive).compactMap(\.part)).count
    let all = view.cluster == nil ? 0 : view.service.share.partCount
    writer.sample(["state": "serving"], served)
    writer.sample(["state": "vacant"], max(0, all - served))
  }

  mutating func writeLinks(_ links: [LinkFigures]) {
    writer.family("apus_links", .gauge, "Workers that have a link to the node that serves.")
    writer.sample([:], links.count(where: \.isUp))
    writer.family(
      "apus_link_notifications", .gauge, "Notifications that wait for the node that serves.")
    writer.sample([:], links.reduce(0) { $0 + $1.undecided })
    writer.family(
      "apus_link_notifications_repeated_total", .counter,
      "Notifications sent again because a link ended before the node that serves had decided.")
    writer.sample([:], links.reduce(0) { $0 + $1.repeated })
    writer.family(
      "apus_link_notifications_given_up_total", .counter,
      "Notifications answered with 503 because no node served in time.")
    writer.sample([:], links.reduce(0) { $0 + $1.givenUp })
  }
}
