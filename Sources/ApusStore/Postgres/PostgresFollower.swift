package import ApusModel

/// Reads a store that is a database, while a service writes to it or none runs.
package final class PostgresFollower: StoreFollower {
  private let reading: PostgresReading
  private let address: PostgresAddress

  /// - Parameter part: The part of a cluster's devices whose rows are read.
  package convenience init(
    _ address: PostgresAddress, node: String, part: Int
  ) throws(StoreError) {
    var options = PostgresOptions()
    (options.node, options.part) = (node, part)
    try self.init(address, options)
  }

  /// - Throws: `.database` if it is not reached or has no tables, `.newerVersion`.
  package init(
    _ address: PostgresAddress, _ options: PostgresOptions = PostgresOptions()
  ) throws(StoreError) {
    var options = options
    options.readers = 1
    self.address = address
    let tables = PostgresTables(address: address, part: options.part)
    try tables.require(
      tables.attempt { () throws(PostgresFault) in
        try PostgresConnection(
          address, part: options.part, name: "apus/\(options.node)/follower",
          withinMilliseconds: options.answerMilliseconds)
      })
    reading = PostgresReading(
      PostgresReaders(address, name: "apus/\(options.node)/follower", options) {}, address, options)
    try catchUp()
  }

  deinit { reading.readers.close() }

  /// Connects again if the connection was lost.
  package func catchUp() throws(StoreError) {
    do throws(PostgresFault) { try reading.readers.replenish() } catch {
      throw .database(place: address.description, detail: "\(error)")
    }
  }

  package func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    try reading.get(family, key: key)
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    try reading.scan(family, prefix: prefix, from: start, visit)
  }

  package func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    try reading.scanMailbox(of: devices, visit)
  }
}
