import ApusCluster
import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTesting
import Foundation
import PostgresServer
import Testing

extension NodeName {
  static func named(_ text: String) throws -> NodeName { try #require(NodeName(text)) }
}

/// Two nodes of a cluster, whose services do not run.
final class Nodes: Sendable {
  let source: TestDirectory
  let database = "cluster-\(UUID().uuidString.lowercased())"
  let place: StorePlace
  private let folder = TemporaryDirectory()

  var a: DataDirectory { source.data }
  var b: DataDirectory { directory("b") }

  func directory(_ name: String) -> DataDirectory { DataDirectory(path: "\(folder.path)/\(name)") }
  func cluster(_ directory: DataDirectory) -> Cluster { Cluster(directory, program: "1.2") }

  /// - Parameters:
  ///   - joins: Whether node b has joined.
  ///   - parts: Into how many parts the devices are divided.
  init(joins: Bool = true, parts: Int = 1) throws {
    source = try TestDirectory()
    place = try StorePlace(PostgresServer.shared.address(of: database))
    _ = try initialize(parts: parts)
    if joins { try join("b") }
  }

  @discardableResult
  func initialize(parts: Int = 1) throws -> Int {
    try cluster(a).initialize(
      node: .named("a"), address: "a.example", store: place, parts: parts, allowsSingleServer: true)
  }

  func join(_ name: String) throws {
    try cluster(directory(name)).join(
      place, cluster(a).invite(), node: .named(name), address: "")
  }

  @discardableResult
  func sql(_ text: String) throws -> [String] { try PostgresServer.shared.sql(text, in: database) }

  /// Gives the lease to a node, as if its service had taken it.
  func serve(_ node: String, lease: String = "apus") throws {
    try sql(
      """
      INSERT INTO apus.lease (node, incarnation, counter, released, holder)
        VALUES ('\(lease)', 1, 1, false, '\(node)')
        ON CONFLICT (node) DO UPDATE SET incarnation = lease.incarnation + 1, released = false,
          holder = excluded.holder
      """)
  }

  func follower(_ directory: DataDirectory) throws -> ClusterFollower {
    ClusterFollower(
      directory, try #require(try directory.clusterMember()), program: "1.2",
      log: Log(sink: { _ in }))
  }

  /// Brings a node's copy up to date.
  func follow(_ directory: DataDirectory) throws { try follower(directory).catchUp() }

  /// What both nodes have, by path, without what is a node's own.
  func shared(_ directory: DataDirectory) throws -> [String: Data] {
    let own = [
      "cluster/", "audit.jsonl", "lock", "store.", "crls", "format", "journal/", "service.",
    ]
    var files: [String: Data] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: directory.path)
    where !own.contains(where: name.hasPrefix) {
      let path = "\(directory.path)/\(name)"
      var isFolder: ObjCBool = false
      _ = FileManager.default.fileExists(atPath: path, isDirectory: &isFolder)
      if !isFolder.boolValue { files[name] = try Data(contentsOf: URL(filePath: path)) }
    }
    return files
  }

  func areEqual() throws -> Bool { try shared(a) == shared(b) }
}

func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }
