import ApusCore
import ApusLoop

/// The untrusted connections of a worker, of each address in the order in which they came.
struct UntrustedConnections {
  private struct Line {
    /// Those that have ended or are trusted now stay until they are the first.
    var entries = FIFO<DeadlineWheel.Entry>()
    /// Those that are still what they were.
    var count = 0
  }

  private var lines: [SocketAddress: Line] = [:]

  mutating func append(_ connection: Connection) {
    lines[connection.peer.site, default: Line()].entries.append(connection.entry)
    lines[connection.peer.site, default: Line()].count += 1
  }

  /// A connection has ended, or its peer has proved who it is.
  mutating func remove(_ connection: Connection) {
    let site = connection.peer.site
    lines[site]?.count -= 1
    if lines[site]?.count == 0 { lines[site] = nil }
  }

  mutating func oldest(of site: SocketAddress, _ worker: Worker) -> Connection? {
    while let entry = lines[site]?.entries.first {
      if worker.generations[Int(entry.slot)] == entry.generation,
        let found = worker.connections[Int(entry.slot)], !found.isTrusted
      {
        return found
      }
      _ = lines[site]?.entries.popFirst()
    }
    return nil
  }
}
