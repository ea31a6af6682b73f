"""What a notification costs with providers and devices at the nodes of a cluster: rows of cluster.py."""

from harness import say
from nodes import Cluster, Group, Node, database
from rows import Row

LOCAL_GOAL, LINK_GOAL = 1.02, 2.0
PATHS = ["local", "link", "provider-at-edge"]
# The number of nodes, and of those that serve.
SIZES = {"nodes-1": (1, 1), "nodes-2": (2, 1), "nodes-3": (3, 1), "divided-2": (2, 2), "divided-3": (3, 3)}
# Of all providers together, of 100 streams each: with two or three nodes as many as with one.
CONNECTIONS = 6


class Path:
    """Where providers and devices are connected, with the figures of each slice."""

    def __init__(self, group, providers, receivers):
        self.group, self.providers, self.receivers = group, providers, receivers
        self.costs, self.rates = [], []

    def slice(self, messages, counts=True):
        cost, rate = self.group.push(self.providers, self.receivers, messages, CONNECTIONS)
        if counts:
            self.costs.append(cost)
            self.rates.append(rate)


def compare(bench, paths):
    """Measures all paths in alternating slices."""
    messages = bench.options.messages
    for path in paths.values():
        path.slice(max(messages // 10, 1000), counts=False)
    for index in range(bench.options.slices):
        for name, path in paths.items():
            path.slice(messages)
            say(f"  {index + 1:2} {name:16} {path.costs[-1]:7.2f} us {path.rates[-1]:9,.0f} /s")


def service(bench):
    """A service with its embedded store."""
    node = Node(bench.options, bench.scratch / "alone")
    node.provision()
    node.start()
    return Group([node])


def measure_paths(bench):
    """The node that serves compared with a service alone, and an edge with the node that serves."""
    options = bench.options
    say(f"\n{', '.join(PATHS)}: {options.slices} slices of {options.messages:,} notifications to {options.devices:,} "
        "devices")
    with database(bench) as server:
        alone, cluster = service(bench), Cluster(options, bench.scratch / "links", server, 2)
        alone.connect(options.devices)
        cluster.connect(2 * options.devices)
        serving, edge = cluster.nodes
        paths = {"alone": Path(alone, alone.nodes, alone.nodes), "local": Path(cluster, [serving], [serving]),
                 "link": Path(cluster, [edge], [edge]), "provider-at-edge": Path(cluster, [edge], [serving])}
        compare(bench, paths)
        cluster.until_serves(serving.name, 5)
        for group in (cluster, alone):
            group.stop()
    for name, against, goal in [("local", "alone", LOCAL_GOAL), ("link", "local", LINK_GOAL),
                                ("provider-at-edge", "local", LINK_GOAL)]:
        if name in options.rows:
            bench.results.append(Row(
                f"cluster.{name}", "us CPU/message", paths[name].costs, paths[against].costs, against, goal,
                more={"devices": options.devices, "per_second": paths[name].rates}))


def measure_sizes(bench):
    """Clusters of one, two and three nodes, of which one or all serve, with providers and devices at all of them."""
    options = bench.options
    wanted = [name for name in SIZES if name in options.rows or name == "nodes-1"]
    say(f"\n{', '.join(wanted)}: {options.slices} slices of {options.messages:,} notifications to {options.devices:,} "
        "devices")
    with database(bench) as server:
        paths = {}
        for name in wanted:
            cluster = Cluster(options, bench.scratch / name, server, *SIZES[name])
            cluster.connect(options.devices)
            paths[name] = Path(cluster, cluster.nodes, cluster.nodes)
        compare(bench, paths)
        for path in paths.values():
            path.group.until_serve(5)
            path.group.stop()
    one = paths["nodes-1"]
    for name, path in paths.items():
        if name in options.rows:
            costs, rates = (([], []) if path is one else (one.costs, one.rates))
            bench.results += [Row(f"cluster.{name}", "us CPU/message", path.costs, costs, "one node"),
                              Row(f"cluster.{name}-rate", "/s", path.rates, rates, "one node", better="higher")]
