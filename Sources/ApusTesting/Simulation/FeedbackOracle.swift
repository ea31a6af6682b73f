import ApusModel
import ApusStore

/// Checks the feedback lists: what the service's disk contains, and what readers received.
///
/// The laws: an inactive token stays in its list until a reader has read the whole list; meanwhile no other reader gets
/// the same token; no reader gets a token twice on one connection; and no token is listed if its app was never removed.
final class FeedbackOracle {
  struct Row: Hashable {
    var app: Int
    var token: DeviceToken
    /// As sent to readers.
    var seconds: Int64
  }

  private unowned let world: Simulation
  /// Rows received by readers that reached the end of the list.
  private var taken: Set<Row> = []
  /// Rows on the disk from the lists with readers, which are those of the production environment, in list order.
  private var listed: [Row] = []
  private(set) var takenCount = 0

  init(_ world: Simulation) { self.world = world }

  /// Whether the app's list has entries.
  func lists(_ app: Int) -> Bool { listed.contains { $0.app == app } }

  // MARK: Readers

  func received(_ row: Row, by reader: SimulatedFeedbackReader) {
    world.trace("feedback", reader.index, row.app, Int(row.seconds))
    guard let owner = world.owner(of: row.token), owner.app == row.app else {
      return world.oracle.violated(.addressee, "feedback for a foreign or unknown token")
    }
    if !world.devices[owner.device].wasEverGone(owner.app) {
      world.oracle.violated(.feedback, "a token is listed, but its app was never removed")
    }
    if reader.rows.contains(where: { $0.token == row.token }) {
      world.oracle.violated(.feedbackSharing, "reader \(reader.index) got a token twice")
    }
    let isShared = world.readers.contains { other in
      other !== reader && other.app == reader.app && other.isReading
        && other.rows.contains { $0.token == row.token }
    }
    // A node that was taken over from, and has not noticed, reads the list for its own readers.
    if isShared, reader.isReading, world.cluster?.hasFenced != true {
      world.oracle.violated(.feedbackSharing, "two readers got the same token at the same time")
    }
  }

  func readToEnd(_ rows: [Row]) {
    takenCount += rows.count
    taken.formUnion(rows)
  }

  /// The reader's system had them, and the reader was then silent for good.
  func acknowledged(_ rows: [Row]) { taken.formUnion(rows) }

  // MARK: The disk

  /// Something was written: rows that left a list were read, or replaced by a later time.
  func written() {
    let rows = world.parts.flatMap { Self.rows(of: $0.disk.image) }
    guard rows != listed else { return }
    let present = Set(rows)
    for row in listed where !present.contains(row) && !isTaken(row) {
      let isRenewed = rows.contains {
        $0.token == row.token && $0.app == row.app && $0.seconds >= row.seconds
      }
      if !isRenewed {
        world.oracle.violated(
          .feedback,
          "a row of app \(row.app) at \(row.seconds) was removed before anybody read the list to its end"
        )
      }
    }
    for row in rows where !listed.contains(row) {
      world.trace("feedback listed", row.app, Int(row.seconds))
      world.relay.listed(row.token)
    }
    listed = rows
  }

  /// Whether some reader got it and the end of the list. A reader that closed its side cleanly need not see the end.
  private func isTaken(_ row: Row) -> Bool {
    taken.contains(row)
      || world.readers.contains { ($0.hasFinished || $0.hasSeenEnd) && $0.rows.contains(row) }
  }

  private static func rows(of image: MemoryStore) -> [Row] {
    var rows: [Row] = []
    let byTime: [UInt8] = [0]
    try? image.scan(.feedback, prefix: byTime.span) { key, value in
      if let (list, row) = try? FeedbackRecord.decode(timeKey: key, value: value),
        list.environment == .production
      {
        rows.append(
          Row(
            app: Int(list.topic.app.rawValue) - 1, token: row.token,
            seconds: row.milliseconds / 1000))
      }
      return true
    }
    return rows
  }

  /// Everything had enough time, and readers connected: lists with readers must be empty.
  func finish() {
    let read = Set(world.readers.map(\.app))
    let left = listed.count { read.contains($0.app) }
    if left > 0 { world.oracle.violated(.feedback, "\(left) rows were never sent to readers") }
  }
}
