import ApusCore
import ApusLoop

/// Handshakes of one environment whose peers owe the next step, of each address in the order in which they began.
struct HalfOpenHandshakes {
  private struct Line {
    var entries = LiveQueue<DeadlineWheel.Entry>()
    var count = 0
  }

  private var lines: [SocketAddress: Line] = [:]
  private(set) var count = 0

  func count(of site: SocketAddress) -> Int { lines[site]?.count ?? 0 }

  mutating func append(_ connection: Connection, _ table: ConnectionTable) {
    lines[connection.peer.site, default: Line()].entries.append(connection.entry) {
      Self.isHalfOpen($0, table)
    }
    lines[connection.peer.site]?.count += 1
    count += 1
  }

  /// The handshake is completed or has failed.
  mutating func remove(_ connection: Connection) {
    let site = connection.peer.site
    count -= 1
    lines[site]?.count -= 1
    if lines[site]?.count == 0 { lines[site] = nil }
    // Returns the memory that many addresses took.
    if lines.isEmpty { lines = [:] }
  }

  /// The oldest handshake of the address that has the most: no address suffers for another one.
  mutating func oldestOfLargest(_ table: ConnectionTable) -> Connection? {
    guard let site = lines.max(by: { $0.value.count < $1.value.count })?.key else { return nil }
    return lines[site]?.entries.first { Self.isHalfOpen($0, table) }.flatMap(table.awake)
  }

  private static func isHalfOpen(_ entry: DeadlineWheel.Entry, _ table: ConnectionTable) -> Bool {
    table.awake(entry)?.isHalfOpen == true
  }
}
