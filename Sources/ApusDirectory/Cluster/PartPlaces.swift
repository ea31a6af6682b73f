package import ApusStore
import ApusWire

// The file `parts.conf`, which the nodes of a cluster share, says which parts of the devices have a database of their
// own.

extension DataDirectory {
  package var partsFile: String { "\(path)/parts.conf" }

  /// The databases of a cluster's parts, as the directory knows them.
  ///
  /// - Parameter main: That of part 0, and of a service of its own.
  package func partDatabases(main: PostgresAddress) throws -> PartDatabases {
    guard isInCluster, Files.exists(partsFile) else { return PartDatabases(main: main) }
    do {
      var places: [Int: PartDatabases.Place] = [:]
      for section in try SectionFile(text: Files.readText(partsFile)).sections {
        guard section.kind == "part", let part = Int(section.name),
          let id = section["id"].flatMap({ Hex.decode(Array($0.utf8).span) }),
          let address = section["address"]
        else {
          throw SectionFile.Fault(
            line: section.line, problem: "a part has a number, an address and an id")
        }
        places[part] = PartDatabases.Place(address: try PostgresAddress(address), id: id)
      }
      return PartDatabases(main: main, places: places)
    } catch {
      throw DirectoryProblem("\(partsFile): \(error)")
    }
  }

  /// Lets all nodes know where the parts are.
  package func save(_ databases: PartDatabases) throws {
    try changing {
      let sections = databases.places.sorted { $0.key < $1.key }.map { part, place in
        SectionFile.Section(
          kind: "part", name: "\(part)",
          values: [("address", place.address.text), ("id", Self.text(place.id))])
      }
      try Files.write(
        SectionFile(sections: sections).text(
          heading: "Parts of the devices that have a database of their own: `apus cluster move`."),
        to: partsFile, isPrivate: true)
    }
  }
}
