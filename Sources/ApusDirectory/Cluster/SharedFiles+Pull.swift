package import ApusStore

// From the database to the data directory.

extension SharedFiles {
  /// Brings the copy up to date. Call it while the directory is locked.
  ///
  /// `directory.conf` comes last: it names keys and apps whose files must be there.
  package func pull(_ database: ClusterDatabase, _ shared: SharedVersion) throws {
    guard member.hasKey(of: shared.proof) else {
      throw DirectoryProblem(
        "the cluster key in \(directory.clusterPath) is not that of the database: name the right database, or join "
          + "again")
    }
    let known = version
    guard known != shared.version else { return }
    // What was removed long ago is not listed any more, and neither is anything after the database went back.
    let isWhole = known < shared.forgotten || known > shared.version || known == 0
    let inParts = isWhole ? Set(try database.pathsInParts().filter(Self.isShared)) : []
    for path in inParts { try restore(path, database) }
    var present = inParts
    var last: SharedPart?
    try database.parts(after: isWhole ? 0 : known) { part in
      guard Self.isShared(part.path), !inParts.contains(part.path) else { return }
      if part.content != nil { present.insert(part.path) }
      if "\(directory.path)/\(part.path)" == directory.directoryFile {
        last = part
      } else {
        try apply(part, database)
      }
    }
    if let last { try apply(last, database) }
    if isWhole { try removeOthers(than: present) }
    try setVersion(shared.version)
  }

  private func apply(_ part: SharedPart, _ database: ClusterDatabase) throws {
    let place = place(part.path)
    guard let content = try opened(part) else { return try DurableFile.remove(place) }
    guard part.start > 0 else {
      return try write(content, to: part.path, isPrivate: part.isPrivate)
    }
    guard Files.byteCount(place) >= Int(part.start) else {
      return try restore(part.path, database)
    }
    try Files.append(content, to: place, after: Int(part.start))
    try Files.sync(place)
  }

  /// A file that is as it should be stays the same file: others may have it open.
  private func write(_ content: [UInt8], to path: String, isPrivate: Bool) throws {
    let place = place(path)
    if Files.byteCount(place) == content.count, (try? Files.readWhole(place)) == content { return }
    if let slash = path.lastIndex(of: "/") {
      try Files.makeDirectory(self.place(String(path[..<slash])))
    }
    try Files.write(content, to: place, isPrivate: isPrivate)
  }

  /// Makes a file what the database has.
  func restore(_ path: String, _ database: ClusterDatabase) throws {
    var content: [UInt8] = []
    var isPrivate = true
    var hasParts = false
    for part in try database.parts(of: path) {
      hasParts = true
      guard let bytes = try opened(part) else { return try DurableFile.remove(place(path)) }
      content.removeLast(max(0, content.count - Int(part.start)))
      content += bytes
      isPrivate = part.isPrivate
    }
    guard hasParts else { return try DurableFile.remove(place(path)) }
    try write(content, to: path, isPrivate: isPrivate)
  }

  private func removeOthers(than present: Set<String>) throws {
    for path in try paths() where !present.contains(path) {
      try DurableFile.remove(place(path))
    }
  }

  /// The shared files that the directory has.
  func paths() throws -> [String] {
    try FileTree.content(of: directory.path).files.filter(Self.isShared)
  }
}
