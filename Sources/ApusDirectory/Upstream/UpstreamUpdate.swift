/// A change of an app's upstream on its way into the data directory: files are written before the record that names
/// them, and removed after it. Used under the directory's lock.
///
/// A certificate and its key are two files. A service that reads them in between keeps the trust data that it has, and
/// reads them again a moment later.
struct UpstreamUpdate {
  private let files: UpstreamFiles
  private let content: [(part: UpstreamFiles.Part, text: String)]
  private let unused: [UpstreamFiles.Part]
  /// What the written files had before; nil for one that did not exist.
  private let former: [String?]
  /// The settings afterwards; nil for an app without an upstream.
  let settings: UpstreamSettings?

  /// - Throws: Why it is not possible. Nothing was changed.
  init(
    _ change: Edit<UpstreamChange>, of section: SectionFile.Section, in directory: DataDirectory
  ) throws(DirectoryProblem) {
    files = try UpstreamFiles(directory, section.name)
    guard case .set(let change) = change else {
      (content, unused, former, settings) = ([], UpstreamFiles.Part.allCases, [], nil)
      return
    }
    let old: UpstreamSettings?
    do throws(DirectoryProblem) { old = try UpstreamSettings(section) } catch {
      throw DirectoryReader(directory: directory).problem(section, "\(error)")
    }
    let settings = try change.settings(after: old)
    let content = try change.content()
    let used = content.map(\.part) + (old == nil ? [] : change.kept(by: settings))
    unused = UpstreamFiles.Part.allCases.filter { !used.contains($0) }
    var former: [String?] = []
    for (part, _) in content { former.append(try files.read(part)) }
    (self.settings, self.content, self.former) = (settings, content, former)
  }

  func writeFiles(of directory: DataDirectory) throws(FileError) {
    if !content.isEmpty { try Files.makeDirectory(directory.upstreamPath) }
    for (part, text) in content {
      try Files.write(text, to: files.path(part), isPrivate: part.isPrivate)
    }
  }

  /// Brings back what the files had before.
  func undo() {
    for ((part, _), text) in zip(content, former) {
      let path = files.path(part)
      if let text {
        try? Files.write(text, to: path, isPrivate: part.isPrivate)
      } else {
        Files.remove(path)
      }
    }
  }

  /// Removes the files that the new record does not need.
  func removeUnused() throws(FileError) {
    for part in unused { try DurableFile.remove(files.path(part)) }
  }
}

extension DirectoryText {
  /// Writes the values of an upstream; nil removes them.
  mutating func set(_ upstream: UpstreamSettings?, in section: SectionFile.Section) {
    // From the last one on: each new line is put in front of the others.
    for (name, value) in (upstream?.values ?? []).reversed() {
      if let value { set(name, to: value, in: section) } else { unset(name, in: section) }
    }
    guard upstream == nil else { return }
    for (name, _) in section.values where name.hasPrefix("upstream") { unset(name, in: section) }
  }
}
