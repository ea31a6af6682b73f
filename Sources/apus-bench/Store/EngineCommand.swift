import ApusCommand
import ApusModel
import ApusStore
import ApusWire
import Glibc

/// `apus-bench engine`: writes stored notifications like the service, but without it.
struct EngineCommand {
  private let path: String
  private let devices: Int
  private let first: Int
  private let total: Int
  private let groupSize: Int
  private let payload: [UInt8]

  init(_ invocation: Invocation) throws(CommandFailure) {
    path = try invocation.require(BenchOptions.store)
    devices = try invocation.require(BenchOptions.numberedDevices)
    first = invocation.value(BenchOptions.first)
    total = try invocation.require(BenchOptions.notifications)
    groupSize = invocation.value(BenchOptions.groupSize)
    payload = [UInt8](
      repeating: UInt8(ascii: "x"),
      count: invocation.value(BenchOptions.frameBytes) - BinaryFrames.overheadBytes)
  }

  func run() throws(CommandFailure) {
    let opening = ContinuousClock.now
    let writer = try GroupWriter(path)
    let opened = ContinuousClock.now
    let before = writer.counters
    for start in stride(from: 0, to: total, by: groupSize) {
      var group = writer.makeGroup()
      let end = min(start + groupSize, total)
      // Sorted by device, as the service writes a group.
      let ids = (start..<end).map { Fleet.deviceID((first + $0) % devices).rawValue }.sorted()
      for (place, id) in ids.enumerated() {
        append(id, order: UInt64(start + place), to: &group)
      }
      try writer.write(group)
    }
    try writer.settle()
    let seconds = (.now - opened) / .seconds(1)
    let counters = writer.counters
    writer.close()
    let summary = JSONValue.members([
      "open_seconds": .number((opened - opening) / .seconds(1)),
      "notifications": .integer(Int64(total)),
      "groups": .integer(Int64(counters.groups - before.groups)),
      "syncs": .integer(Int64(counters.syncs - before.syncs)), "seconds": .number(seconds),
    ])
    print(summary.text)
  }

  private func append(_ id: UInt64, order: UInt64, to group: inout WriteGroup) {
    let now = EngineCommand.now
    group.put(
      StoredNotification.Fields(
        acceptanceOrder: order, expirationSeconds: now + 3600, acceptedMilliseconds: now * 1000,
        messageID: UInt32(truncatingIfNeeded: order), id: NotificationID(high: id, low: order),
        uniqueID: NotificationID(high: order, low: id),
        token: DeviceToken(words: (id, order, id, order)), priority: .immediate, pushType: nil,
        flags: 0),
      collapseID: [UInt8]().span, payload: payload.span,
      at: MailboxKey(
        device: DeviceID(id), topic: RegisteredDevices.topic, environment: .production))
  }

  private static let now = Int64(time(nil))
}
