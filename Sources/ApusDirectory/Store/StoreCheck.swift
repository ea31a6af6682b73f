import ApusModel
import ApusStore

/// Reads everything that a store has, and changes nothing.
package enum StoreCheck {
  /// - Returns: What was found about the store of a directory without a running service.
  package static func findings(_ directory: DataDirectory) -> [DirectoryFinding] {
    if directory.isInDatabase { return databaseFindings(directory) }
    guard directory.hasStore else {
      guard directory.lacksItsStore else {
        return [DirectoryFinding("store", .good, "no service has stored anything here yet")]
      }
      return [
        bad(
          "\(directory.storePath) is missing or empty, but the directory has had a store",
          "Mount its volume, or restore a backup.")
      ]
    }
    do {
      // Held until the end: a service must not start and remove tables.
      let lock = try StoreLock(path: directory.storePath)
      defer { withExtendedLifetime(lock) {} }
      let damage = StoreSurvey(path: directory.storePath).findings
      guard damage.isEmpty else { return damage.map { bad($0, remedy) } }
      let following = try StoreFollowing(directory.storePath)
      return try rows(following.store)
    } catch StoreError.locked {
      return [
        DirectoryFinding(
          "store", .notable, "not read, because the service runs; it was checked at its start")
      ]
    } catch {
      return [bad("\(error)", remedy)]
    }
  }

  /// A service may be running: the database keeps its tables apart from readers.
  private static func databaseFindings(_ directory: DataDirectory) -> [DirectoryFinding] {
    do { return try rows(directory.followStore().store) } catch {
      return [bad("\(error)", "Make the database reachable, or restore a backup of it.")]
    }
  }

  private static let remedy =
    "Restore a backup, or run `apus store --accept-loss`, which continues with what can be read."

  private static func bad(_ text: String, _ remedy: String) -> DirectoryFinding {
    DirectoryFinding("store", .bad, text, remedy)
  }

  /// Reads every row, whose blocks have checksums, and decodes it.
  private static func rows(_ store: any StoreFollower) throws(StoreError) -> [DirectoryFinding] {
    var counts: [StoreFamily: Int] = [:]
    var firstFault: [StoreFamily: (count: Int, text: String)] = [:]
    for family in StoreFamily.allCases {
      try store.scan(family, prefix: Span()) { key, value in
        counts[family, default: 0] += 1
        if let fault = fault(family, key, value) {
          firstFault[family] = (
            (firstFault[family]?.count ?? 0) + 1, firstFault[family]?.text ?? fault
          )
        }
        return true
      }
    }
    _ = try store.readCounters()
    _ = try store.readRejections()
    _ = try CountedNumbers(of: store)
    guard firstFault.isEmpty else {
      return firstFault.sorted { $0.key.rawValue < $1.key.rawValue }.map { family, fault in
        bad(
          "\(counted(fault.count, "row")) of \(family.name) cannot be read; the first is \(fault.text)",
          "The service leaves them out. Restore a backup if they matter.")
      }
    }
    let notifications = counted(counts[.mailbox] ?? 0, "notification")
    let devices = counted(counts[.devices] ?? 0, "device")
    return [DirectoryFinding("store", .good, "intact, with \(notifications) and \(devices)")]
  }

  private static func fault(
    _ family: StoreFamily, _ key: Span<UInt8>, _ value: Span<UInt8>
  ) -> String? {
    do throws(RecordError) {
      switch family {
      case .mailbox:
        _ = try MailboxKey(decoding: key)
        _ = try StoredNotification(decoding: value)
      case .devices:
        _ = try DeviceRecord.decode(key: key)
        _ = try DeviceRecord(decoding: value)
      case .feedback:
        if key.count > 0, key[0] == 0 {
          _ = try FeedbackRecord.decode(timeKey: key, value: value)
        } else {
          _ = try FeedbackRecord.decode(tokenValue: value)
        }
      case .channels: try ChannelRecord.examine(key: key, value: value)
      case .relay: try RelayRecord.examine(key: key, value: value)
      case .meta, .ledger: break
      }
      return nil
    } catch {
      return "\(error)"
    }
  }
}
