import ApusStore
import ApusTrust

/// The files of a data directory that all nodes of a cluster share: what the database has, and the copy of it in the
/// directory.
///
/// The database has the truth. A node has a copy of every file, so it can start while the database is away.
package struct SharedFiles {
  let directory: DataDirectory
  let member: ClusterMember

  package init(_ directory: DataDirectory, _ member: ClusterMember) {
    self.directory = directory
    self.member = member
  }

  private static let files: Set<String> = [
    "directory.conf", "sealing.keys", "ticket.keys", "devices.tsv", "webhooks.conf",
    "parts.conf",
  ]
  private static let folders: Set<String> = [
    "authority", "server", "keys", "upstreams", "certificates", "enrolment", "jobs", "webhooks",
  ]

  /// Whether a file is shared, by its path below the directory. Everything else is the node's own.
  static func isShared(_ path: String) -> Bool {
    if files.contains(path) { return true }
    let names = path.split(separator: "/", omittingEmptySubsequences: false)
    guard let top = names.first, names.count > 1, folders.contains(String(top)) else {
      return false
    }
    // Neither what leads out of the folder nor what an interrupted write left.
    return !names.contains { $0.isEmpty || $0.hasPrefix(".") } && !path.hasSuffix(".new")
      && !path.contains(".part")
  }

  /// The path of a file below the directory; nil if it is not shared.
  func sharedPath(_ path: String) -> String? {
    let prefix = "\(directory.path)/"
    guard path.hasPrefix(prefix) else { return nil }
    let below = String(path.dropFirst(prefix.count))
    return Self.isShared(below) ? below : nil
  }

  func place(_ path: String) -> String { "\(directory.path)/\(path)" }

  // MARK: The version of the copy

  private var versionFile: String { "\(directory.clusterPath)/version" }

  /// The version of the shared files that the directory has a copy of; 0 if that is not known.
  package var version: Int64 {
    let text = try? Files.readText(versionFile)
    return text.flatMap { Int64($0.prefix { $0 != "\n" }) } ?? 0
  }

  package func setVersion(_ version: Int64) throws {
    try Files.write("\(version)\n", to: versionFile, isPrivate: true)
  }

  // MARK: Encryption

  /// A part is what it is only at its place, and in its version.
  private static func context(_ part: SharedPart) -> [UInt8] {
    Array("\(part.path)\n\(part.start)\n\(part.version)\n\(part.isPrivate)".utf8)
  }

  /// Bytes by which encryption makes a part longer.
  static let sealingOverhead = SealingBox.overhead

  func sealed(_ content: [UInt8], as part: SharedPart) -> SharedPart {
    var part = part
    part.content = member.box.seal(content, context: Self.context(part))
    return part
  }

  func opened(_ part: SharedPart) throws -> [UInt8]? {
    guard let content = part.content else { return nil }
    guard let opened = member.box.open(content, context: Self.context(part)) else {
      throw DirectoryProblem(
        "the database has another content of \(part.path) than a node wrote: it was changed by other means, or the "
          + "cluster key in \(directory.clusterPath) is not that of the cluster")
    }
    return opened
  }
}
