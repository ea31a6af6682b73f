package import ApusCore
import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// What makes a data directory that of a node of a cluster: the file `cluster/member`.
package struct ClusterMember: Sendable {
  package let node: NodeName
  /// Where clients reach the node; empty if that was not said.
  package let address: String
  /// The cluster key: 32 bytes, the same on all nodes. It encrypts shared files in the database.
  package let key: [UInt8]
  /// The number of parts into which the cluster's devices are divided.
  package let parts: Int

  package init(node: NodeName, address: String, key: [UInt8], parts: Int = 1) {
    self.node = node
    self.address = address
    self.key = key
    self.parts = parts
  }

  /// The same node after the devices were divided.
  package func with(parts: Int) -> ClusterMember {
    ClusterMember(node: node, address: address, key: key, parts: parts)
  }

  var box: SealingBox { SealingBox(key: key) }

  private static let proofContext = Array("apus cluster".utf8)

  /// What the database keeps to tell the key from a wrong one.
  package var proof: [UInt8] { box.seal([], context: Self.proofContext) }

  package func hasKey(of proof: [UInt8]) -> Bool {
    box.open(proof, context: Self.proofContext) != nil
  }
}

extension DataDirectory {
  package var clusterPath: String { "\(path)/cluster" }
  private var memberFile: String { "\(clusterPath)/member" }

  /// Whether the directory is that of a node of a cluster.
  package var isInCluster: Bool { Files.exists(memberFile) }

  /// Nil if the directory is not that of a node.
  package func clusterMember() throws -> ClusterMember? {
    guard isInCluster else { return nil }
    let file: SectionFile
    do { file = try SectionFile(text: Files.readText(memberFile)) } catch {
      throw DirectoryProblem("\(memberFile): \(error)")
    }
    guard let section = file.sections.first,
      let node = section["node"].flatMap({ NodeName($0) }),
      let key = section["key"].flatMap({ Hex.decode(Array($0.utf8).span) }),
      key.count == SealingBox.keyByteCount,
      let parts = Int(section["parts"] ?? "1"), (1...Limits.deviceParts).contains(parts)
    else {
      throw DirectoryProblem(
        "\(memberFile) must name a node, the cluster key and the number of parts: restore it, or join the cluster "
          + "again")
    }
    return ClusterMember(node: node, address: section["address"] ?? "", key: key, parts: parts)
  }

  /// The number of parts into which the devices are divided, as the node knows it; 1 for a service of its own.
  package func partCount() throws -> Int { try clusterMember()?.parts ?? 1 }

  /// The same as the database says, with shared files that are up to date: the devices may have been divided since the
  /// node's service ran last, and a part may have moved.
  package func currentPartCount() throws -> Int {
    guard let member = try clusterMember() else { return 1 }
    let database = try clusterDatabase(node: member.node.text, purpose: "command")
    guard let shared = try database.directory() else { return member.parts }
    let files = SharedFiles(self, member)
    if files.version != shared.version { try locked { try files.pull(database, shared) } }
    if shared.parts != member.parts { try save(member.with(parts: shared.parts)) }
    return shared.parts
  }

  /// Makes the directory that of a node.
  package func save(_ member: ClusterMember) throws {
    try Files.makeDirectory(clusterPath)
    let values = [
      ("node", member.node.text), ("address", member.address),
      ("key", String(decoding: Hex.encode(member.key.span), as: UTF8.self)),
      ("parts", "\(member.parts)"),
    ]
    let file = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    try Files.write(
      file.text(heading: "This node of the cluster. The key is the same on all nodes."),
      to: memberFile, isPrivate: true)
  }

  /// Makes the directory that of a service of its own again.
  package func forgetCluster() throws {
    try DurableFile.remove(memberFile)
    try FileTree.remove(clusterPath)
  }
}
