import Glibc

/// The state of the engine's files at the last check: the length of its list of tables (the MANIFEST), and the newest
/// log.
///
/// The engine treats a truncated MANIFEST as cut off by a crash, forgets the tables that it no longer names and
/// deletes them; and if no log is left it does not notice. This note is stored beside its files and written when the
/// MANIFEST grows, some times an hour. It is never ahead of the files, so a crash cannot make it wrong, and any file
/// that is shorter has been damaged.
struct StoreProgress: Equatable {
  var manifest: String
  var manifestBytes: Int
  /// The number of the newest log; 0 if there was none.
  var newestLog: UInt64

  static let file = "PROGRESS"
  private static let current = "CURRENT"

  /// The current state; nil if the engine's pointer to its MANIFEST cannot be read, which the engine itself reports.
  init?(of directory: StoreDirectory) {
    guard let pointer = try? directory.read(Self.current),
      let manifest = pointer.split(separator: "\n").first.map(String.init),
      let names = try? directory.list()
    else { return nil }
    var status = stat()
    let isThere = unsafe stat("\(directory.path)/\(manifest)", &status) == 0
    self.manifest = manifest
    manifestBytes = isThere ? Int(status.st_size) : 0
    newestLog = names.compactMap(Self.logNumber).max() ?? 0
  }

  /// Parses the note; nil if it is invalid.
  init?(text: String) {
    let words = text.split(whereSeparator: \.isWhitespace)
    guard words.count == 3, let bytes = Int(words[1]), let log = UInt64(words[2]) else {
      return nil
    }
    (manifest, manifestBytes, newestLog) = (String(words[0]), bytes, log)
  }

  var text: String { "\(manifest) \(manifestBytes) \(newestLog)\n" }

  /// What is missing compared with the note `recorded`; nil if nothing is.
  func fault(recorded: StoreProgress) -> String? {
    if manifest == recorded.manifest, manifestBytes < recorded.manifestBytes {
      return "its file \(manifest) has \(manifestBytes) bytes, but had \(recorded.manifestBytes)"
    }
    if let number = Self.number(of: manifest), let old = Self.number(of: recorded.manifest),
      number < old
    {
      return "it uses \(manifest), but had already used \(recorded.manifest)"
    }
    guard newestLog < recorded.newestLog else { return nil }
    let log = String(repeating: "0", count: max(0, 6 - "\(recorded.newestLog)".count))
    return "its log \(log)\(recorded.newestLog).log is missing"
  }

  private static func number(of manifest: String) -> UInt64? {
    manifest.split(separator: "-").last.flatMap { UInt64($0) }
  }

  static func logNumber(_ name: String) -> UInt64? {
    name.hasSuffix(".log") ? UInt64(name.dropLast(4)) : nil
  }
}

/// Keeps the note up to date; on the commit thread.
struct StoreProgressKeeper {
  private let directory: StoreDirectory
  private var written: StoreProgress?
  /// The first one is not with the first writes, for which a start waits.
  private var nextLook: Deadline
  private var hasLooked = false

  private let lookMilliseconds: Int64

  /// - Parameter lookMilliseconds: The time between checks of the files.
  init(_ directory: StoreDirectory, lookMilliseconds: Int64) {
    self.directory = directory
    self.lookMilliseconds = lookMilliseconds
    nextLook = .after(milliseconds: lookMilliseconds)
  }

  /// When to write the note for the first time, whether or not anything is written to the store; nil once that is done.
  var firstLook: Deadline? { hasLooked ? nil : nextLook }

  /// Refuses to open a store with missing data.
  func check() throws(StoreError) {
    guard let recorded = try directory.readIfThere(StoreProgress.file) else { return }
    guard let note = StoreProgress(text: recorded) else {
      throw .corrupted(
        path: directory.path, detail: "its file \(StoreProgress.file) cannot be read: \(recorded)")
    }
    guard let found = StoreProgress(of: directory) else { return }
    if let fault = found.fault(recorded: note) {
      throw .corrupted(path: directory.path, detail: fault)
    }
  }

  /// Writes the note if the files have grown. A failure is not a fault of the store: the old note stays true.
  mutating func write(isForced: Bool = false) {
    guard isForced || nextLook.isPast else { return }
    hasLooked = true
    nextLook = .after(milliseconds: lookMilliseconds)
    guard let found = StoreProgress(of: directory), found != written else { return }
    do throws(StoreError) {
      // If the note survives a power loss, the files must too.
      try directory.sync(found.manifest)
      try directory.sync(nil)
      try directory.write(found.text, to: StoreProgress.file)
      written = found
    } catch {}
  }
}
