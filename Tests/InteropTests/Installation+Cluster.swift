import Foundation

// Nodes of a cluster.

extension Installation {
  /// Options of a node that accepts clients while it stands by.
  static func linked() -> [String] {
    [
      "--single-database", "--link-listen", "127.0.0.1:\(freePort())", "--advertise", "127.0.0.1",
    ]
  }

  /// The states of all nodes by their names, as this node shows them.
  func states() throws -> [String: String] { try column(1) }

  /// The parts of the nodes that serve.
  func parts() throws -> [String: String] {
    try column(2).filter { Int($0.value) != nil }
  }

  private func column(_ index: Int) throws -> [String: String] {
    let lines = try run(["cluster", "nodes"]).split(separator: "\n").dropFirst()
    return Dictionary(
      uniqueKeysWithValues: lines.map { line in
        let words = line.split(separator: " ")
        return (String(words[0]), String(words[index]))
      })
  }

  func wait(for states: [String: String]) throws {
    for _ in 0..<100 {
      if try self.states() == states { return }
      usleep(100_000)
    }
    throw Trouble("the nodes are \(try self.states())")
  }

  /// Waits until this node shows this state of another one, or of itself.
  ///
  /// A node accepts pushes before its next renewal says that it serves.
  func wait(for name: String, toBe state: String) throws {
    for _ in 0..<50 {
      if try states()[name] == state { return }
      usleep(100_000)
    }
    throw Trouble("the nodes are \(try states())")
  }
}
