import ApusModel

/// Reads the tables through connections that readers share.
final class PostgresReading: Sendable {
  let readers: PostgresReaders
  private let address: PostgresAddress
  private let limit: Int64

  /// Rows of the first part of a scan, and of each further one.
  private static let rowsInPart: (first: Int64, next: Int64) = (64, 2048)
  /// Devices whose notifications are read by one statement.
  private static let devicesInPart = 256
  /// More than the rest of a key after its device.
  private static let bytesAfterDevice = 16

  init(_ readers: PostgresReaders, _ address: PostgresAddress, _ options: PostgresOptions) {
    self.readers = readers
    self.address = address
    limit = options.readMilliseconds
  }

  func get(_ family: StoreFamily, key: Span<UInt8>) throws(StoreError) -> [UInt8]? {
    var values = PostgresValues()
    values.append(key)
    var found: [UInt8]?
    try readers.read { connection throws(PostgresFault) in
      try connection.send(.get, family, values)
      try connection.finish(withinMilliseconds: limit) { _, rows in
        if rows.count > 0 { found = rows.bytes(0, 0).copied() }
      }
    }
    return found
  }

  /// Reads in parts, so that neither a connection nor a transaction is held during the visits. What is written between
  /// two parts is seen by the later ones.
  func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    let bound = prefix.firstBehind()
    var next = (start.precedes(prefix) ? prefix : start).copied()
    var count = Self.rowsInPart.first
    while true {
      let part = try part(family, from: next, to: bound, count)
      for row in part.ranges {
        guard visit(part.bytes.span.extracting(row.key), part.bytes.span.extracting(row.value))
        else { return }
      }
      guard part.ranges.count == count, let last = part.ranges.last else { return }
      // The first key after it.
      next = part.bytes[last.key] + [0]
      count = Self.rowsInPart.next
    }
  }

  /// Rows that were read, with their bytes in one array.
  private struct Part {
    var bytes: [UInt8] = []
    var ranges: [(key: Range<Int>, value: Range<Int>)] = []

    mutating func append(_ key: Span<UInt8>, _ value: Span<UInt8>) {
      let start = bytes.count
      bytes.append(key)
      bytes.append(value)
      ranges.append((start..<start + key.count, start + key.count..<bytes.count))
    }
  }

  /// - Parameter bound: Empty for the end of the table.
  private func part(
    _ family: StoreFamily, from start: [UInt8], to bound: [UInt8], _ count: Int64
  ) throws(StoreError) -> Part {
    var values = PostgresValues(.bytes(start))
    if !bound.isEmpty { values.append(.bytes(bound)) }
    values.append(.integer(count))
    var part = Part()
    try readers.read { connection throws(PostgresFault) in
      try connection.send(bound.isEmpty ? .scanToEnd : .scan, family, values)
      try connection.finish(withinMilliseconds: limit) { _, rows in
        for row in 0..<rows.count { part.append(rows.bytes(row, 0), rows.bytes(row, 1)) }
      }
    }
    return part
  }

  func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    for start in stride(from: 0, to: devices.count, by: Self.devicesInPart) {
      let some = devices[start..<min(start + Self.devicesInPart, devices.count)]
      var part = Part()
      var places: [Int] = []
      let values = Self.bounds(of: some)
      try readers.read { connection throws(PostgresFault) in
        try connection.send(.mailboxes, nil, values)
        try connection.finish(withinMilliseconds: limit) { _, rows in
          for row in 0..<rows.count {
            places.append(start + Int(rows.integer(row, 0)) - 1)
            part.append(rows.bytes(row, 1), rows.bytes(row, 2))
          }
        }
      }
      for (place, row) in zip(places, part.ranges) {
        visit(place, part.bytes.span.extracting(row.key), part.bytes.span.extracting(row.value))
      }
    }
  }

  private static func bounds(of devices: ArraySlice<DeviceID>) -> PostgresValues {
    var values = PostgresValues()
    values.beginArray()
    for device in devices { values.appendElement(device.storeKey.span) }
    values.endArray()
    values.beginArray()
    let highest = [UInt8](repeating: 0xff, count: bytesAfterDevice)
    for device in devices { values.appendElement((device.storeKey.span.copied() + highest).span) }
    values.endArray()
    return values
  }

  /// The keys of expired notifications among the `count` rows after `start`, and the last key of these rows; nil at
  /// the end of the table.
  func expired(
    after start: [UInt8], nowSeconds: Int64, _ count: Int64
  ) throws(StoreError) -> (keys: [[UInt8]], last: [UInt8]?) {
    var soonest: [UInt8] = []
    soonest.append(bigEndian: nowSeconds + 1)
    let values = PostgresValues(
      .bytes(start), .bytes(soonest), .integer(count), .bytes([StoredNotification.version]))
    var keys: [[UInt8]] = []
    try readers.read { connection throws(PostgresFault) in
      try connection.send(.expired, nil, values)
      try connection.finish(withinMilliseconds: limit) { _, rows in
        for row in 0..<rows.count { keys.append(rows.bytes(row, 0).copied()) }
      }
    }
    let last = keys.popLast()
    return (keys, last)
  }
}
