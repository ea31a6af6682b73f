import Foundation
import PostgresServer
import Testing

@Suite("The example of a cluster")
struct ClusterExampleTests {
  private static let folder = Programs.root.appending(path: "Examples/cluster")

  private func text(_ name: String) throws -> String {
    try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
  }

  /// The exit code of a shell's command, and all that it printed.
  private func shell(
    _ command: String, _ environment: [String: String] = [:]
  ) throws -> (code: Int, text: String) {
    let output = try Programs.bytes(
      URL(filePath: "/bin/sh"), ["-c", "(\(command)) 2>&1; printf '\\n%s' $?"],
      environment: environment)
    let text = String(decoding: output, as: UTF8.self)
    let end = try #require(text.lastIndex(of: "\n"))
    return (try #require(Int(text[text.index(after: end)...])), String(text[..<end]))
  }

  @Test("HAProxy takes its configuration")
  func haproxy() throws {
    let file = Self.folder.appending(path: "haproxy.cfg").path
    let checked = try shell("/usr/sbin/haproxy -c -f '\(file)'")
    #expect(checked.code == 0 && !checked.text.contains("[ALERT]"), "\(checked)")
  }

  @Test("The script makes three nodes over one database, once")
  func nodes() throws {
    let place = FileManager.default.temporaryDirectory.appending(
      path: "apus-example-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: place) }
    let programs = try Programs.product("apus").deletingLastPathComponent().path
    let store = try PostgresServer.shared.address(
      of: "example-\(UUID().uuidString.lowercased())")
    let environment = [
      "PATH": "\(programs):/usr/bin:/bin", "APUS_SINGLE_DATABASE": "on", "APUS_STORE": store,
    ]
    let script = Self.folder.appending(path: "setup.sh").path
    // Its last line is for the user of containers.
    let command = "id() { echo 1000; }; set -- '\(place.path)' push; . '\(script)'"
    for _ in 1...2 {
      let made = try shell(command, environment)
      #expect(made.code == 0, "\(made)")
      let nodes = try Programs.run(
        Programs.product("apus"), ["cluster", "nodes", "--data", place.path + "/c"])
      let rows = nodes.split(separator: "\n").dropFirst().map {
        $0.split(separator: " ").map(String.init)
      }
      #expect(rows.map { $0.first ?? "" } == ["a", "b", "c"], "\(nodes)")
      #expect(rows.map { $0.last ?? "" } == ["a", "b", "c"], "\(nodes)")
    }
  }

  @Test("The script for the database's image makes what the nodes and the standby need")
  func database() throws {
    let server = try PostgresServer()
    let place = FileManager.default.temporaryDirectory.appending(
      path: "apus-example-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: place) }
    let script = Self.folder.appending(path: "database.sh").path
    let made = try shell(
      "'\(script)'",
      [
        "PGHOST": server.directory.path(), "PGDATA": place.path, "POSTGRES_PASSWORD": "it's long",
      ])
    #expect(made.code == 0, "\(made)")
    let access = try String(contentsOf: place.appending(path: "pg_hba.conf"), encoding: .utf8)
    #expect(access == "host replication postgres all scram-sha-256\n")
    let owner =
      "SELECT rolname, rolcanlogin FROM pg_database JOIN pg_roles ON pg_roles.oid = datdba "
      + "WHERE datname = 'apus'"
    #expect(try server.sql(owner, in: "postgres") == ["apus|t"])
    let names =
      "SELECT setting FROM pg_file_settings WHERE name = 'synchronous_standby_names'"
    #expect(try server.sql(names, in: "postgres") == ["ANY 1 (db1, db2)"])
  }

  @Test("The drop-ins fit the packaged units", arguments: ["apus.service", "apus@push.service"])
  func units(unit: String) throws {
    let place = FileManager.default.temporaryDirectory.appending(
      path: "apus-units-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: place) }
    let packaged = unit.replacing("@push", with: "@")
    let drops = place.appending(path: "\(packaged).d")
    try FileManager.default.createDirectory(at: drops, withIntermediateDirectories: true)
    for name in ["apus.socket", packaged] {
      let file = try String(
        contentsOf: Programs.root.appending(path: "Packaging/systemd/\(name)"), encoding: .utf8)
      // The program need not be installed.
      try file.replacing("/usr/bin/apus", with: try Programs.product("apus").path)
        .write(to: place.appending(path: name), atomically: true, encoding: .utf8)
    }
    let drop = try text("systemd/cluster.conf")
    try drop.write(to: drops.appending(path: "cluster.conf"), atomically: true, encoding: .utf8)
    let verify =
      "SYSTEMD_UNIT_PATH='\(place.path):' systemd-analyze verify --man=no '\(place.path)/\(unit)'"
    try #require(try shell("command -v systemd-analyze").code == 0)
    let verified = try shell(verify)
    #expect(verified.code == 0 && !verified.text.contains(place.path), "\(verified)")
    // It would say so.
    try (drop + "Restrat=always\n").write(
      to: drops.appending(path: "cluster.conf"), atomically: true, encoding: .utf8)
    #expect(try shell(verify).text.contains("Restrat"))
  }

  @Test("The compose file has the nodes that HAProxy knows, and the files that it mounts")
  func compose() throws {
    let compose = try text("compose.yaml")
    for node in ["a", "b", "c"] {
      #expect(compose.contains("\n  \(node):\n    <<: *node\n    volumes: [\"\(node):/data\"]\n"))
      for port in [2197, 5223] {
        #expect(try text("haproxy.cfg").contains("  server \(node) \(node):\(port)\n"))
      }
    }
    for mount in compose.matches(of: /- \.\/([^:]+):/) {
      let file = Self.folder.appending(path: String(mount.1))
      #expect(FileManager.default.fileExists(atPath: file.path), "\(file.path)")
    }
    let single = try String(
      contentsOf: Programs.root.appending(path: "Examples/compose.yaml"), encoding: .utf8)
    let image = try #require(single.firstMatch(of: /image: (apus:[0-9.]+)/)).1
    let images = compose.matches(of: /image: (apus:[0-9.]+)/).map(\.1)
    #expect(images == [image, image])
  }
}
