import Glibc

/// The folder of a data directory in which a restore is prepared, and from which it is moved into place.
///
/// ```
/// restoring/content/    the new content of the directory
/// restoring/complete    exists once the content is complete; has the name of the folder for the old one, or is empty
/// restoring/moved       exists once the old content is in that folder
/// ```
struct RestoringFolder {
  private let directory: DataDirectory

  init(_ directory: DataDirectory) { self.directory = directory }

  private var path: String { "\(directory.path)/restoring" }
  var content: String { "\(path)/content" }
  private var completeMark: String { "\(path)/complete" }
  private var movedMark: String { "\(path)/moved" }

  var isComplete: Bool { Files.exists(completeMark) }

  /// What stays where it is.
  private static let left: Set<String> = ["lock", "backup.lock", "lost+found", "restoring"]

  private func entries() throws(FileError) -> [String] {
    try Files.names(in: directory.path).filter {
      !Self.left.contains($0) && !$0.hasPrefix(Restore.replacedPrefix)
    }
  }

  /// Refuses a folder with files that are not those of a service.
  func refuseForeignFiles() throws {
    guard !directory.isProvisioned, let name = try entries().sorted().first else { return }
    throw DirectoryProblem(
      "\(directory.path) contains \(name), but no Apus service: restore into an empty directory")
  }

  /// Refuses parts that cannot be moved.
  func refuseMountPoints() throws {
    let system = try Files.fileSystem(of: directory.path)
    for name in try entries() {
      let entry = "\(directory.path)/\(name)"
      guard try Files.fileSystem(of: entry) != system else { continue }
      throw DirectoryProblem(
        "\(entry) is on a file system of its own and cannot be replaced: restore into an empty "
          + "directory, and copy its content there")
    }
  }

  /// Makes it, without what an earlier attempt left.
  func empty() throws {
    try remove()
    try Files.makeDirectory(path)
  }

  func remove() throws {
    if Files.exists(path) { try FileTree.remove(path) }
  }

  /// As root, gives the content to the owner of the directory.
  func giveToOwner() throws {
    if geteuid() == 0 { try FileTree.give(path, toOwnerOf: directory.path) }
  }

  /// The name of a folder for the old content.
  func nameForOld(nowSeconds: Int64) -> String {
    var seconds = nowSeconds
    while Files.exists("\(directory.path)/\(Restore.replacedPrefix)\(seconds)") { seconds += 1 }
    return "\(Restore.replacedPrefix)\(seconds)"
  }

  /// - Parameter old: The name of the folder for the old content; nil if there is none.
  func declareComplete(old: String?) throws {
    try FileTree.syncNames(in: content)
    try Files.write(old ?? "", to: completeMark, isPrivate: true)
  }

  /// Moves the old content away and the new content into place. May be repeated until it succeeds.
  func moveIn() throws {
    let old = try Files.readText(completeMark)
    if !Files.exists(movedMark) {
      if !old.isEmpty { try moveOld(to: "\(directory.path)/\(old)") }
      try Files.write("", to: movedMark, isPrivate: true)
    }
    for name in try Files.names(in: content) {
      try Files.move("\(content)/\(name)", to: "\(directory.path)/\(name)")
    }
    try Files.syncFolder(of: path)
    try DurableFile.remove(completeMark)
    try FileTree.remove(path)
  }

  private func moveOld(to folder: String) throws {
    try Files.makeDirectory(folder)
    if geteuid() == 0 { try FileTree.give(folder, toOwnerOf: directory.path) }
    for name in try entries() {
      try Files.move("\(directory.path)/\(name)", to: "\(folder)/\(name)")
    }
    try Files.syncFolder(of: "\(folder)/.")
    try Files.syncFolder(of: folder)
  }
}
