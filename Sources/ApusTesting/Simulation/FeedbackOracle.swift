import ApusModel
import ApusStore

/// Watches over the feedback lists: what the service's disk has of them, and what readers were given.
///
/// The laws: a dead token stays in its list until somebody has read the list to its end and had it; while one reads,
/// nobody else is given the same; nobody is given it twice on one connection; and no token is called dead whose app was
/// never gone.
final class FeedbackOracle {
  struct Row: Hashable {
    var app: Int
    var token: DeviceToken
    /// As readers are given it.
    var seconds: Int64
  }

  private unowned let world: Simulation
  /// What readers had that came to the end.
  private var taken: Set<Row> = []
  /// What the disk has of the lists that have readers, those of the production environment: in the lists' order.
  private var listed: [Row] = []
  private(set) var takenCount = 0

  init(_ world: Simulation) { self.world = world }

  /// Whether the app's list has something.
  func lists(_ app: Int) -> Bool { listed.contains { $0.app == app } }

  // MARK: Readers

  func received(_ row: Row, by reader: SimulatedFeedbackReader) {
    world.trace("feedback", reader.index, row.app, Int(row.seconds))
    guard let owner = world.owner(of: row.token), owner.app == row.app else {
      return world.oracle.violated("law 2: feedback for a token of another topic, or of nobody")
    }
    if !world.devices[owner.device].wasEverGone(owner.app) {
      world.oracle.violated("feedback: a token is called dead, and its app was never gone")
    }
    if reader.rows.contains(where: { $0.token == row.token }) {
      world.oracle.violated("feedback: reader \(reader.index) was given a token twice")
    }
    let isShared = world.readers.contains { other in
      other !== reader && other.app == reader.app && other.isReading
        && other.rows.contains { $0.token == row.token }
    }
    if isShared, reader.isReading {
      world.oracle.violated("feedback: two readers were given the same token at one time")
    }
  }

  func readToEnd(_ rows: [Row]) {
    takenCount += rows.count
    taken.formUnion(rows)
  }

  /// The reader's system had them, and then it was silent for ever.
  func acknowledged(_ rows: [Row]) { taken.formUnion(rows) }

  // MARK: The disk

  /// Something was written: what is in no list any more was read, or stands there with a later time.
  func written(_ image: MemoryStore) {
    let rows = Self.rows(of: image)
    guard rows != listed else { return }
    let present = Set(rows)
    for row in listed where !present.contains(row) && !isTaken(row) {
      let isRenewed = rows.contains {
        $0.token == row.token && $0.app == row.app && $0.seconds >= row.seconds
      }
      if !isRenewed {
        world.oracle.violated(
          "feedback: a row of app \(row.app) at \(row.seconds) was removed that nobody has read to the end"
        )
      }
    }
    for row in rows where !listed.contains(row) {
      world.trace("feedback listed", row.app, Int(row.seconds))
    }
    listed = rows
  }

  /// Whether somebody has had it and the end of the list. A reader that has shut its side in order need not see that.
  private func isTaken(_ row: Row) -> Bool {
    taken.contains(row)
      || world.readers.contains { $0.hasFinished && $0.rows.contains(row) }
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

  /// Everything has had its time, and readers came by: no list that has one is to be left with anything.
  func finish() {
    let read = Set(world.readers.map(\.app))
    let left = listed.count { read.contains($0.app) }
    if left > 0 { world.oracle.violated("feedback: \(left) rows are never given to readers") }
  }
}
