import ApusModel
import ApusStore
import ApusTrust
import Glibc

/// A copy of a data directory that is complete and consistent: a folder with the list of its files, and the files in
/// `data/`.
package struct Backup: Sendable {
  package let path: String
  package let manifest: BackupManifest

  static func manifestFile(_ path: String) -> String { "\(path)/backup.manifest" }
  static func dataPath(_ path: String) -> String { "\(path)/data" }

  // MARK: Reading

  /// - Throws: Why it is no complete backup.
  package init(path: String) throws(DirectoryProblem) {
    self.path = path
    do {
      manifest = try BackupManifest(text: Files.readText(Self.manifestFile(path)))
    } catch let error as FileError {
      throw DirectoryProblem("\(path) is not a complete backup: \(error)")
    } catch {
      throw DirectoryProblem("\(Self.manifestFile(path)): \(error)")
    }
  }

  private init(path: String, manifest: BackupManifest) {
    (self.path, self.manifest) = (path, manifest)
  }

  /// Reads every file, and compares it with the list.
  ///
  /// - Throws: The first file that is missing, or has another content.
  package func verify() throws {
    for entry in manifest.entries {
      try check(entry) { hasher in
        try Files.readParts("\(Self.dataPath(path))/\(entry.path)") { hasher.add($0) }
      }
    }
  }

  /// Copies every file to a folder that does not exist yet, and compares it with the list.
  func copy(to target: String) throws {
    for folder in [""] + manifest.folders.sorted() {
      try Files.makeDirectory("\(target)/\(folder)")
    }
    for entry in manifest.entries {
      let file = "\(target)/\(entry.path)"
      try check(entry) { hasher in
        try Files.copy("\(Self.dataPath(path))/\(entry.path)", to: file) { hasher.add($0) }
      }
      if !DataDirectory.isPrivate(entry.path) { unsafe _ = chmod(file, 0o644) }
    }
  }

  private func check(
    _ entry: BackupManifest.Entry, _ read: (inout SHA256Hasher) throws -> Void
  ) throws {
    var hasher = SHA256Hasher()
    do { try read(&hasher) } catch let error as FileError {
      throw DirectoryProblem("the backup is damaged: \(error)")
    }
    guard hasher.finish() == entry.digest else {
      throw DirectoryProblem(
        "the backup is damaged: \(Self.dataPath(path))/\(entry.path) is not the file that was saved"
      )
    }
  }

  // MARK: Making

  /// Makes a backup.
  ///
  /// The folder has its name once it is complete; until then it is `TARGET.partial`.
  ///
  /// - Parameters:
  ///   - target: A path at which nothing exists.
  ///   - program: The version of the program.
  ///   - copyRunningStore: Has the service that runs make a copy of its store, and returns the copy's path. Called if
  ///     a service has the store open.
  package static func make(
    of directory: DataDirectory, at target: String, program: String, nowSeconds: Int64,
    copyRunningStore: () throws -> String
  ) throws -> Backup {
    try directory.requireProvisioned()
    guard !Files.exists(target) else {
      throw DirectoryProblem("\(target) exists; name a path at which nothing exists")
    }
    let lock = try BackupLock(directory)
    defer { withExtendedLifetime(lock) {} }
    let partial = "\(target).partial"
    try FileTree.remove(partial)
    try Files.makeDirectory(dataPath(partial))
    var manifest = BackupManifest(
      madeSeconds: nowSeconds, program: program, entries: [], folders: [])
    do {
      // First, because what the other files say may be newer than the store, but not older.
      let store = try directory.copyStore(ifRunning: copyRunningStore)
      defer { try? RocksStore.removeCheckpoint(path: directory.storePath) }
      try directory.locked {
        try manifest.add(directory.backedUpContent(), of: directory.path, to: dataPath(partial))
      }
      if let store {
        try Files.makeDirectory("\(dataPath(partial))/store")
        manifest.folders.append("store")
        try manifest.add(
          FileTree.content(of: store), of: store, to: dataPath(partial), below: "store/")
      }
      try FileTree.syncNames(in: dataPath(partial))
      try Files.write(manifest.text, to: manifestFile(partial), isPrivate: true)
      try Files.move(partial, to: target)
      try Files.syncFolder(of: target)
      return Backup(path: target, manifest: manifest)
    } catch {
      try? FileTree.remove(partial)
      throw error
    }
  }
}

extension BackupManifest {
  /// Copies files to the backup and lists them.
  fileprivate mutating func add(
    _ content: FileTree.Content, of source: String, to target: String, below prefix: String = ""
  ) throws {
    for name in content.folders + content.files where name.contains("\n") {
      throw DirectoryProblem("the name of \(source)/\(name) has more than one line: rename it")
    }
    for folder in content.folders {
      try Files.makeDirectory("\(target)/\(prefix)\(folder)")
      folders.append(prefix + folder)
    }
    for name in content.files {
      var hasher = SHA256Hasher()
      var count = 0
      try Files.copy("\(source)/\(name)", to: "\(target)/\(prefix)\(name)") { part in
        hasher.add(part)
        count += part.count
      }
      entries.append(Entry(path: prefix + name, byteCount: count, digest: hasher.finish()))
    }
  }
}

/// Held while a backup is made: of two at once, one would remove the other's copy of the store.
private struct BackupLock: ~Copyable {
  private let descriptor: Int32

  init(_ directory: DataDirectory) throws {
    descriptor = unsafe open(directory.backupLockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw FileError(path: directory.backupLockFile, operation: "open", code: errno)
    }
    guard lockFile(descriptor, waitMilliseconds: 0) else {
      Glibc.close(descriptor)
      throw DirectoryProblem("another backup of \(directory.path) is being made")
    }
  }

  deinit { Glibc.close(descriptor) }
}

extension DataDirectory {
  fileprivate var backupLockFile: String { "\(path)/backup.lock" }

  /// What says nothing about the service, or is made again; what would be sent again; and the store, of which a copy
  /// is made.
  private static let leftOut: Set<String> = [
    "lock", "backup.lock", "directory.conf.lock", "service.addresses", "ticket.keys", "store",
    "restoring", "lost+found", "webhooks", "jobs", "cluster",
  ]

  fileprivate func backedUpContent() throws(FileError) -> FileTree.Content {
    func isLeftOut(_ file: String) -> Bool {
      let top = file.prefix { $0 != "/" }
      return Self.leftOut.contains(String(top)) || top.hasPrefix("store.damaged-")
        || top.hasPrefix(Restore.replacedPrefix) || file.hasSuffix(".new")
    }
    var content = try FileTree.content(of: path)
    content.files.removeAll(where: isLeftOut)
    content.folders.removeAll(where: isLeftOut)
    return content
  }

  /// Whether a file of the directory is for its owner alone. Certificates and public keys are for everyone.
  static func isPrivate(_ file: String) -> Bool {
    if file.hasPrefix("store/") || file.hasPrefix("enrolment/") { return true }
    return
      !([".crt", ".pub", ".csr"].contains(where: file.hasSuffix)
      || ["directory.conf", "format"].contains(file) || file.hasPrefix("crls/"))
  }

  /// - Returns: The path of a copy of the store; nil if there is no store.
  fileprivate func copyStore(ifRunning copyRunningStore: () throws -> String) throws -> String? {
    guard hasStore || lacksItsStore else { return nil }
    do {
      let store = try openStore(RocksOptions())
      defer { store.close() }
      return try store.makeCheckpoint()
    } catch StoreError.locked {
      return try copyRunningStore()
    }
  }

  /// Removes the copy of the store that an interrupted backup left.
  package func removeInterruptedBackup() {
    guard let lock = try? BackupLock(self) else { return }
    try? RocksStore.removeCheckpoint(path: storePath)
    withExtendedLifetime(lock) {}
  }
}
