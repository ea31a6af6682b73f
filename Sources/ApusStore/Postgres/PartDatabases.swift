/// In which databases the rows of a cluster's devices are.
///
/// The main one has those of part 0, all leases, and what the nodes share. The rows of each further part are there as
/// well, or in a database of their own.
package struct PartDatabases: Sendable, Hashable {
  /// Where the rows of one part are.
  package struct Place: Sendable, Hashable {
    package let address: PostgresAddress
    /// The id of the part's tables: 16 bytes, made with them.
    package let id: [UInt8]

    package init(address: PostgresAddress, id: [UInt8]) {
      (self.address, self.id) = (address, id)
    }
  }

  package let main: PostgresAddress
  /// By the number of the part, from 1 on: those that are not in the main database.
  package private(set) var places: [Int: Place]

  package init(main: PostgresAddress, places: [Int: Place] = [:]) {
    (self.main, self.places) = (main, places)
  }

  package func address(of part: Int) -> PostgresAddress { places[part]?.address ?? main }

  /// - Parameter place: Nil for the main database.
  package func with(_ place: Place?, of part: Int) -> PartDatabases {
    var databases = self
    databases.places[part] = place
    return databases
  }
}
