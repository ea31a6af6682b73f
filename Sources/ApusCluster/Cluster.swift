package import ApusCore
package import ApusDirectory
package import ApusModel
import ApusStore
import ApusThread
import ApusTrust

/// What an operator does with a cluster, from any node, or with the database alone.
package struct Cluster {
  let directory: DataDirectory
  /// The version of the program, which nodes show.
  private let program: String

  package init(_ directory: DataDirectory, program: String) {
    self.directory = directory
    self.program = program
  }

  // MARK: Making one

  /// Makes a service whose rows are in a database the first node of a cluster. One that was interrupted is completed.
  ///
  /// - Parameters:
  ///   - store: The database of a new service, which has no store yet.
  ///   - parts: The number of parts into which the devices are divided, so that as many nodes serve at the same time:
  ///     1 to `Limits.deviceParts`.
  ///   - allowsSingleServer: Whether a database without a synchronous standby is good enough.
  /// - Returns: The number of files that the nodes share from now on.
  package func initialize(
    node: NodeName, address: String, store: StorePlace?, parts: Int, allowsSingleServer: Bool
  ) throws -> Int {
    try directory.requireProvisioned()
    if case .database(let place) = store, try directory.storePlace() == nil {
      var options = PostgresOptions()
      options.allowsSingleServer = allowsSingleServer
      try directory.openDatabase(place, options).close()
    }
    guard case .database(let place) = try directory.storePlace() else {
      throw DirectoryProblem(
        "the store of \(directory.path) is embedded: copy it with `apus store copy embedded postgresql://...`, or "
          + "name the database of a new service with --store")
    }
    guard store == nil || store == .database(place) else {
      throw DirectoryProblem(
        "the store of \(directory.path) is \(place), and not the one of --store")
    }
    return try directory.locked {
      let earlier = try directory.clusterMember()
      let member =
        earlier
        ?? ClusterMember(
          node: node, address: address, key: randomBytes(SealingBox.keyByteCount), parts: parts)
      guard member.parts == parts else {
        throw DirectoryProblem(
          "the cluster was begun with \(counted(member.parts, "part")): give --parts \(member.parts)"
        )
      }
      if parts > 1, earlier == nil, try directory.hasDevices() {
        throw DirectoryProblem(
          "the service has devices already: leave out --parts, and divide them with `apus cluster divide` afterwards"
        )
      }
      let database = try directory.clusterDatabase(node: member.node.text, purpose: "command")
      if let shared = try database.directory() {
        guard shared.version == 0, member.hasKey(of: shared.proof) else {
          throw DirectoryProblem(
            earlier == nil
              ? "the database is that of a cluster already: join it with `apus cluster join`"
              : "\(directory.path) is that of the node \(member.node.text) already")
        }
      }
      try directory.save(member)
      _ = try database.makeDirectory(proof: member.proof, parts: parts)
      _ = try database.add(member.node.text, address: member.address, version: program)
      return try SharedFiles(directory, member).publish(database)
    }
  }

  /// Makes a code with which one further node may join.
  package func invite() throws -> JoinCode {
    let member = try requireMember()
    let code = JoinCode()
    try open(member).invite(
      code.id, sealed: code.seal(member.key), seconds: JoinCode.validSeconds)
    return code
  }

  /// Makes an empty directory that of a further node.
  package func join(
    _ store: StorePlace, _ code: JoinCode, node: NodeName, address: String
  ) throws {
    guard case .database(let place) = store else {
      throw DirectoryProblem("a cluster is joined through its database: postgresql://...")
    }
    guard !directory.isProvisioned, !directory.isInCluster else {
      throw DirectoryProblem(
        "\(directory.path) contains a service already; choose another --data, or move it away")
    }
    try requireNeighbours(of: node, place)
    let database = try ClusterDatabase(place, node: node.text, purpose: "join")
    guard let sealed = try database.invitation(code.id), let key = code.open(sealed) else {
      throw DirectoryProblem(
        "the code is not valid: each is for one node and one hour. `apus cluster invite` makes another"
      )
    }
    guard let shared = try database.directory() else { throw notACluster }
    let member = ClusterMember(node: node, address: address, key: key, parts: shared.parts)
    try directory.prepareNode(place, databaseID: database.databaseID)
    guard
      try database.accept(code.id, node.text, address: address, version: program)
    else {
      throw DirectoryProblem(
        "the cluster has a node \(node.text) already, or the code was used meanwhile: give another --node, or remove "
          + "the old one with `apus cluster remove \(node.text)`")
    }
    try directory.save(member)
    try pull(member, database)
  }

  /// Refuses a program that must not run beside the nodes that do. For a node that starts, before it opens the
  /// database, whose tables it would change for a later release. One that is not reached tells nothing.
  package func requireNeighbours() throws {
    guard case .database(let place) = try directory.storePlace() else { return }
    do {
      try requireNeighbours(of: requireMember().node, place)
    } catch StoreError.database {}
  }

  private func requireNeighbours(of own: NodeName, _ place: PostgresAddress) throws {
    guard let release = ReleaseNumber(program) else { return }
    let nodes = try ClusterDatabase.nodes(of: place, asNode: own.text)
    for node in nodes where node.name != own.text && node.isLive {
      guard let other = ReleaseNumber(node.version), !release.runsBeside(other) else { continue }
      throw DirectoryProblem(
        "the node \(node.name) runs version \(node.version), and this is version \(program): nodes that run at the "
          + "same time may be one release apart. Upgrade them one release after the other, or stop the others first"
      )
    }
  }

  private func pull(_ member: ClusterMember, _ database: ClusterDatabase) throws {
    guard let shared = try database.directory() else { throw notACluster }
    try directory.locked { try SharedFiles(directory, member).pull(database, shared) }
  }

  private var notACluster: DirectoryProblem {
    DirectoryProblem("the database is not that of a cluster")
  }

  // MARK: Nodes

  package func nodes() throws -> [ClusterNode] { try open(requireMember()).nodes() }

  /// Asks a node to let another one serve, and waits until it does.
  ///
  /// - Returns: The node that serves now in its place; nil if it did not serve.
  package func drain(_ name: NodeName, withinSeconds limit: Int) throws -> String? {
    let database = try open(requireMember())
    guard let node = try beginDrain(name, database) else { return nil }
    let deadline = monotonicMilliseconds() + Int64(limit) * 1000
    while true {
      let nodes = try database.nodes()
      let isServing = nodes.contains {
        $0.name == name.text && $0.state == .serving && $0.isLive
      }
      let successor = nodes.first {
        $0.name != name.text && $0.state == .serving && $0.isLive
          // One that drains already may have given its lease back.
          && (node.part == nil || $0.part == node.part)
      }
      if !isServing, let successor { return successor.name }
      guard monotonicMilliseconds() < deadline else {
        throw DirectoryProblem(
          "\(name.text) still serves after \(limit) s; it goes on draining, and `apus cluster nodes` shows when it has "
            + "ended")
      }
      pause(milliseconds: 200)
    }
  }

  /// Asks a node to let another one serve.
  package func beginDrain(_ name: NodeName) throws {
    _ = try beginDrain(name, open(requireMember()))
  }

  /// Returns the node if it serves.
  private func beginDrain(
    _ name: NodeName, _ database: ClusterDatabase
  ) throws -> ClusterNode? {
    let nodes = try database.nodes()
    guard let node = nodes.first(where: { $0.name == name.text }) else { throw noNode(name) }
    if node.isLive, node.state == .serving,
      !nodes.contains(where: { $0.name != name.text && $0.mayTakeOver })
    {
      throw DirectoryProblem(
        "no other node stands by, so nobody would serve in its place: start one, or stop the service of \(name.text)"
      )
    }
    guard try database.setDraining(true, name.text) else { throw noNode(name) }
    return node.isLive && node.state == .serving ? node : nil
  }

  /// Lets a node serve again that was drained.
  package func resume(_ name: NodeName) throws {
    guard try open(requireMember()).setDraining(false, name.text) else { throw noNode(name) }
  }

  /// Removes a node that does not serve.
  package func remove(_ name: NodeName) throws {
    let database = try open(requireMember())
    guard let node = try database.nodes().first(where: { $0.name == name.text }) else {
      throw noNode(name)
    }
    guard node.state != .serving || !node.isLive else {
      throw DirectoryProblem(
        "\(name.text) serves: let another node take over with `apus cluster drain \(name.text)` first"
      )
    }
    _ = try database.remove(name.text)
  }

  // MARK: Parts

  /// The number of each part's node, and where its rows are.
  package struct Part: Sendable {
    package let number: Int
    /// The node that serves it; nil if none does.
    package let node: String?
    /// Without user and password.
    package let database: String
  }

  package func parts() throws -> [Part] {
    let nodes = try nodes()
    let count = try directory.currentPartCount()
    let databases = try databases()
    return (0..<count).map { number in
      let node = nodes.first { $0.part == number && $0.state == .serving && $0.isLive }
      return Part(
        number: number, node: node?.name, database: databases.address(of: number).description)
    }
  }

  private func databases() throws -> PartDatabases {
    guard case .database(let address) = try directory.storePlace() else { throw notACluster }
    return try directory.partDatabases(main: address)
  }

  /// Moves the rows of a part to another database. No node may run, and each that had a part must have given it back.
  ///
  /// - Parameters:
  ///   - part: From 1 on: part 0, and what exists once, stay where they are.
  ///   - target: An empty database; that of part 0; or the one that has the part already, by its new address.
  ///   - allowsSingleServer: Whether a database without a synchronous standby is good enough.
  /// - Returns: The number of rows; nil if the database had them already.
  /// - Throws: Why nothing was changed. If a database was lost meanwhile, the same move completes it.
  package func move(
    _ part: Int, to target: StorePlace, allowsSingleServer: Bool
  ) throws -> Int? {
    guard case .database(let address) = target else {
      throw DirectoryProblem("a part moves to a database: postgresql://...")
    }
    let member = try requireMember()
    let count = try directory.currentPartCount()
    guard (1..<count).contains(part) else {
      throw DirectoryProblem(
        count == 1
          ? "the devices are not divided: see `apus cluster divide`"
          : "a part that moves is one of 1 to \(count - 1); part 0, and what exists once, stay where they are"
      )
    }
    let report = try directory.locked {
      try requireStopped(open(member))
      return try PostgresMove(
        databases(), options(member, allowsSingleServer), part: part, to: address
      ).run()
    }
    let known = try databases()
    try directory.save(known.with(address == known.main ? nil : report.place, of: part))
    return report.rows
  }

  private func requireStopped(_ database: ClusterDatabase) throws {
    if let running = try database.nodes().first(where: \.isLive) {
      throw DirectoryProblem(
        "\(running.name) is running: stop the services of all nodes, and start them afterwards")
    }
  }

  private func options(_ member: ClusterMember, _ allowsSingleServer: Bool) -> PostgresOptions {
    var options = PostgresOptions()
    options.node = member.node.text
    options.allowsSingleServer = allowsSingleServer
    return options
  }

  /// Divides the devices into more parts. No node may run, and each that had a part must have given it back.
  ///
  /// - Parameters:
  ///   - parts: More than there are, up to `Limits.deviceParts`.
  ///   - allowsSingleServer: Whether a database without a synchronous standby is good enough.
  /// - Returns: The number of rows about devices, and how many of them are in the tables of another part than before.
  /// - Throws: Why nothing was changed; a database that was lost during the commit knows whether it was made.
  package func divide(
    into parts: Int, allowsSingleServer: Bool
  ) throws -> (rows: Int, moved: Int) {
    let member = try requireMember()
    return try directory.locked {
      let database = try open(member)
      guard let shared = try database.directory() else { throw notACluster }
      try SharedFiles(directory, member).pull(database, shared)
      guard parts > shared.parts else {
        throw DirectoryProblem(
          "the devices are divided into \(counted(shared.parts, "part")) already, and only into more can they be "
            + "divided further: give a larger --parts")
      }
      try requireStopped(database)
      let databases = try databases()
      if let part = databases.places.keys.min() {
        throw DirectoryProblem(
          "part \(part) has a database of its own, and only parts in one database are divided further: move it to "
            + "\(databases.main) first, with `apus cluster move`")
      }
      let sealer = TokenSealer(try directory.sealingKeys())
      let report = try PostgresDivision(
        databases.main, options(member, allowsSingleServer), into: parts,
        place: { device, count in DeviceShare(part: nil, of: count)?.part(of: device) ?? 0 },
        device: { sealer.open($0)?.device }
      ).run()
      try directory.save(member.with(parts: parts))
      return (report.rows, report.moved)
    }
  }

  private func noNode(_ name: NodeName) -> DirectoryProblem {
    DirectoryProblem("the cluster has no node \(name.text): `apus cluster nodes` lists them")
  }

  private func requireMember() throws -> ClusterMember {
    guard let member = try directory.clusterMember() else {
      throw DirectoryProblem(
        "\(directory.path) is not that of a node of a cluster: see `apus cluster init` and `apus cluster join`"
      )
    }
    return member
  }

  private func open(_ member: ClusterMember) throws -> ClusterDatabase {
    try directory.clusterDatabase(node: member.node.text, purpose: "command")
  }
}
