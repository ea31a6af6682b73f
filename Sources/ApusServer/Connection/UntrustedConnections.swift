import ApusCore
import ApusLoop

/// The untrusted connections of a worker, of each address in the order in which they came. Those whose proxy has not
/// named the client yet are in the line of the proxy.
struct UntrustedConnections {
  private struct Line {
    var entries = LiveQueue<DeadlineWheel.Entry>()
    /// Those that are still untrusted.
    var count = 0
  }

  private var lines: [SocketAddress: Line] = [:]

  mutating func append(_ connection: Connection, _ table: ConnectionTable) {
    let site = connection.peer.site
    lines[site, default: Line()].entries.append(connection.entry) {
      Self.isUntrusted($0, of: site, table)
    }
    lines[site]?.count += 1
  }

  /// A connection has ended, or its peer became trusted.
  mutating func remove(_ connection: Connection) {
    let site = connection.peer.site
    lines[site]?.count -= 1
    if lines[site]?.count == 0 { lines[site] = nil }
  }

  mutating func oldest(of site: SocketAddress, _ table: ConnectionTable) -> Connection? {
    lines[site]?.entries.first { Self.isUntrusted($0, of: site, table) }.flatMap(table.awake)
  }

  private static func isUntrusted(
    _ entry: DeadlineWheel.Entry, of site: SocketAddress, _ table: ConnectionTable
  ) -> Bool {
    table.awake(entry).map { $0.holder == nil && $0.peer.site == site } ?? false
  }
}
