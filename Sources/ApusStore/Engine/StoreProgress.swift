import Glibc

/// What the engine's files were when they were last looked at: how long its list of tables was (the MANIFEST), and
/// which log was the newest.
///
/// The engine takes a MANIFEST that ends early for one that a crash has cut off, forgets the tables that it no longer
/// names and deletes them; and where no log is left it knows of none. This note stands beside its files and is written
/// when the MANIFEST grows, which is some times an hour. It is never ahead of the files, so a crash cannot make it
/// wrong, and what is shorter than it says has been damaged.
struct StoreProgress: Equatable {
  var manifest: String
  var manifestBytes: Int
  /// The number of the newest log; 0 where there was none.
  var newestLog: UInt64

  static let file = "PROGRESS"
  private static let current = "CURRENT"

  /// What is there now; nil where the engine's pointer to its MANIFEST cannot be read, which it says itself.
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

  /// What the note says; nil where it is not one.
  init?(text: String) {
    let words = text.split(whereSeparator: \.isWhitespace)
    guard words.count == 3, let bytes = Int(words[1]), let log = UInt64(words[2]) else {
      return nil
    }
    (manifest, manifestBytes, newestLog) = (String(words[0]), bytes, log)
  }

  var text: String { "\(manifest) \(manifestBytes) \(newestLog)\n" }

  /// What is missing of what the note `recorded` says; nil where nothing is.
  func fault(recorded: StoreProgress) -> String? {
    if manifest == recorded.manifest, manifestBytes < recorded.manifestBytes {
      return "its file \(manifest) has \(manifestBytes) bytes and had \(recorded.manifestBytes)"
    }
    if let number = Self.number(of: manifest), let old = Self.number(of: recorded.manifest),
      number < old
    {
      return "it uses \(manifest) and had gone on to \(recorded.manifest)"
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
  private var nextLook = Deadline.after(milliseconds: 0)

  private let lookMilliseconds: Int64

  /// - Parameter lookMilliseconds: from one look at the files to the next.
  init(_ directory: StoreDirectory, lookMilliseconds: Int64) {
    self.directory = directory
    self.lookMilliseconds = lookMilliseconds
  }

  /// Stops what is to be opened if something is missing of it.
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

  /// Writes the note if the files have grown. A failure is no fault of the store: the old note stays true.
  mutating func note(isForced: Bool = false) {
    guard isForced || nextLook.isPast else { return }
    nextLook = .after(milliseconds: lookMilliseconds)
    guard let found = StoreProgress(of: directory), found != written else { return }
    do throws(StoreError) {
      // What the note says is to survive a loss of power if the note does.
      try directory.sync(found.manifest)
      try directory.sync(nil)
      try directory.write(found.text, to: StoreProgress.file)
      written = found
    } catch {}
  }
}
