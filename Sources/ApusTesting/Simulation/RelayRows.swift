import ApusModel
import ApusStore
import ApusTrust
import ApusWire

/// What a relay has on disk.
struct RelayRows {
  /// The serial numbers of notifications, by their ids.
  private(set) var serials: [NotificationID: Int] = [:]
  private(set) var sums: [RelayOracle.Place: RelayOracle.Sum] = [:]
  private(set) var totals: [RelayOracle.Place: RelayOracle.Sum] = [:]
  /// When tokens were noted as dead, in Unix seconds.
  private(set) var deadTokens: [RelayDigest: Int64] = [:]

  init(_ image: MemoryStore) {
    readNotifications(image)
    let totalsPrefix = SpoolTotalsRecord.prefix
    try? image.scan(.relay, prefix: totalsPrefix.span) { key, value in
      if let record = try? SpoolTotalsRecord(key: key, value: value) {
        totals[.init(app: record.app, environment: record.environment)] = .init(
          count: Int(record.count), byteCount: Int(record.byteCount))
      }
      return true
    }
    let deadPrefix = DeadTokenRecord.prefix
    try? image.scan(.relay, prefix: deadPrefix.span) { key, value in
      if let record = try? DeadTokenRecord(key: key, value: value) {
        deadTokens[record.token.digest] = record.notedSeconds
      }
      return true
    }
  }

  private mutating func readNotifications(_ image: MemoryStore) {
    let prefix = RelayedRecord.Key.prefix
    try? image.scan(.relay, prefix: prefix.span) { key, value in
      guard let place = try? RelayedRecord.Key(decoding: key),
        let record = try? RelayedRecord(decoding: value)
      else { return true }
      let payload = value.extracting(record.payload)
      serials[record.fields.id] = SimulationPayload.serial(of: payload) ?? -1
      let sum = RelayOracle.Place(app: place.app, environment: place.environment)
      sums[sum, default: .init()].count += 1
      sums[sum, default: .init()].byteCount += key.count + value.count
      return true
    }
  }

  /// See `RelayedToken`.
  static func digest(_ token: RelayWorld.Token) -> RelayDigest {
    var bytes: [UInt8] = []
    bytes.append(bigEndian: SimulationCredentials.relayedAppID(token.app).rawValue)
    bytes.append(Environment.production.rawValue)
    bytes += token.device.bytes
    return RelayDigest(sha256Of: bytes.span)
  }
}
