extension Verb {
  static let clusterDescription = CommandDescription(
    name: "cluster", summary: "run a service on several machines over one database",
    details: [
      """
      WHAT is init NODE, invite, join NODE, nodes, drain NODE, resume NODE, remove NODE, divide, parts or move PART. \
      A NODE is a name of a-z, 0-9 and hyphens. One node serves, and the others stand by: if its machine is lost, \
      another one takes over within seconds, with everything that was accepted.
      """,
      """
      `init` makes a service whose store is a PostgreSQL database the first node, and prints a code. `join` makes an \
      empty data directory that of a further node, with the code; `invite` prints another one. Each code is for one \
      node and one hour. Start `apus serve` on every node.
      """,
      """
      Nodes share teams, apps, keys, authorities, certificates, enrolment, names and tags, jobs and webhooks: a \
      command that changes them works on any node, and takes effect on all within a second. Revocation lists (crls/) \
      and the audit log are each node's own.
      """,
      """
      `drain` lets another node take over, for example before an upgrade, and `resume` lets the node serve again. \
      `remove` removes a node that does not serve. It can still read the database: change the database's password.
      """,
      """
      `divide` divides the devices into more parts, each of which a node serves. Stop the services of all nodes \
      before, and start as many as there are parts afterwards, with --link-listen, and one more to stand by. Nothing \
      that was accepted is lost; an interrupted division changes nothing. `parts` shows which node serves each part, \
      and which database has it.
      """,
      """
      `move` moves a part, but part 0, to another database, for when one does not write as much as the nodes could. \
      Stop the services of all nodes before. An interrupted move is completed by the same command. It also says where \
      a database is that has another address now.
      """,
    ], operands: "WHAT [NODE | PART]", operandCount: 1...2,
    operandWords: [
      "init", "invite", "join", "nodes", "drain", "resume", "remove", "divide", "parts",
      "move",
    ],
    examples: [
      ("On the first machine", "apus cluster init a --data /var/lib/apus"),
      (
        "On the second",
        "apus cluster join b --data /var/lib/apus --store postgresql://apus@db1,db2/apus --code CODE"
      ),
      ("Who serves", "apus cluster nodes"),
      ("Before the machine of node a is upgraded", "apus cluster drain a"),
      ("Two nodes at a time, after all were stopped", "apus cluster divide --parts 2"),
      (
        "Part 1 into a database of its own",
        "apus cluster move 1 --store postgresql://apus@db4,db5/apus"
      ),
    ])
}
