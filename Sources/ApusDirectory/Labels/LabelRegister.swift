package import ApusModel
import ApusWire
import Glibc
import Synchronization

/// The names and tags of devices: a file of the data directory, and its content in memory.
///
/// Commands append to the file while a service runs, under the lock of the data directory; everybody reads what was
/// added. It is rewritten when most of its lines are outdated.
package final class LabelRegister: Sendable {
  /// How far the file is read.
  private struct Reading {
    var file: FollowedFile?
    var bytes = 0
    var lines = 0
    var malformedLines: [Int] = []

    /// The labels in further text, which ends with a line.
    mutating func parse(_ text: String) -> [DeviceID: DeviceLabels] {
      var changes: [DeviceID: DeviceLabels] = [:]
      for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
        lines += 1
        if let line = LabelLine(line) {
          changes[line.device] = line.labels
        } else {
          malformedLines.append(lines)
        }
      }
      return changes
    }
  }

  private let directory: DataDirectory
  /// Held while the file is read or changed.
  private let reading = Mutex(Reading())
  /// Held only for memory: threads that deliver ask for names.
  private let labels = Mutex(LabelIndex())

  /// Outdated lines before the file is rewritten.
  private static let spareLines = 1000

  package init(_ directory: DataDirectory) { self.directory = directory }

  /// Reads the file first.
  package init(reading directory: DataDirectory) throws {
    self.directory = directory
    try refresh()
  }

  /// All labels as they were last read.
  package var index: LabelIndex { labels.withLock { $0 } }

  package func read<Value>(_ body: (borrowing LabelIndex) throws -> Value) rethrows -> Value {
    try labels.withLock { index in try body(index) }
  }

  /// The numbers of lines that are malformed, and count for nothing.
  package var malformedLines: [Int] { reading.withLock { $0.malformedLines } }

  // MARK: Reading

  /// Reads what was added to the file since the last call. Costs two system calls if nothing was.
  package func refresh() throws {
    try reading.withLock { reading in try refresh(&reading) }
  }

  /// All labels as the file has them now; as they were last read if it cannot be read.
  package func currentIndex() -> LabelIndex {
    try? refresh()
    return index
  }

  private func refresh(_ reading: inout Reading) throws(FileError) {
    let isSame = reading.file?.isStill(at: directory.labelFile, from: reading.bytes) == true
    if !isSame {
      reading = Reading()
      reading.file = try FollowedFile(directory.labelFile)
    }
    let added = try reading.file?.bytes(from: reading.bytes) ?? []
    // A line without an end is still being written, or was never completed.
    let end = added.lastIndex(of: 0x0a).map { $0 + 1 } ?? 0
    if isSame, end == 0 { return }
    let changes = reading.parse(String(decoding: added[..<end], as: UTF8.self))
    reading.bytes += end
    if isSame { return labels.withLock { $0.apply(changes) } }
    var new = LabelIndex()
    new.apply(changes)
    labels.withLock { $0 = new }
  }

  // MARK: Changes

  /// Changes labels, durably. `edit` sees all labels as they are now, and nobody else changes any meanwhile.
  package func change(_ edit: (borrowing LabelIndex) throws -> [DeviceID: DeviceLabels]) throws {
    try directory.changing {
      try reading.withLock { reading in
        try refresh(&reading)
        let changes = try read(edit)
        guard !changes.isEmpty else { return }
        try removeUnfinishedLine(reading.bytes)
        let lines = changes.sorted { $0.key.rawValue < $1.key.rawValue }
          .map { LabelLine($0.key, $0.value).text }.joined()
        let isNew = !Files.exists(directory.labelFile)
        try OpenFile(appendingTo: directory.labelFile).append(lines, syncs: true)
        if isNew { try Files.syncFolder(of: directory.labelFile) }
        try refresh(&reading)
        try rewrite(&reading)
      }
    }
  }

  /// What a writer left that was killed, or had no room: another line must not begin behind it.
  private func removeUnfinishedLine(_ readBytes: Int) throws(FileError) {
    let path = directory.labelFile
    guard unsafe truncate(path, readBytes) == 0 || errno == ENOENT else {
      throw FileError(path: path, operation: "truncate", code: errno)
    }
  }

  private func rewrite(_ reading: inout Reading) throws {
    guard reading.lines > Self.spareLines else { return }
    let lines = read { index in
      reading.lines > 2 * index.deviceCount + Self.spareLines
        ? index.devices.map { LabelLine($0, index.labels(of: $0)).text } : nil
    }
    guard let lines else { return }
    try Files.write(lines.joined(), to: directory.labelFile, isPrivate: true)
    try refresh(&reading)
  }
}

extension DataDirectory {
  package var labelFile: String { "\(path)/devices.tsv" }
}
