package import ApusModel
import ApusWire
import Glibc
import Synchronization

/// The names and tags of devices: a file of the data directory, and its content in memory.
///
/// Commands append to the file while a service runs, under the lock of the data directory; everybody reads what was
/// added. It is written anew when most of its lines count no more.
package final class LabelRegister: Sendable {
  private struct State {
    var index = LabelIndex()
    var lines = 0
    var malformedLines: [Int] = []
    /// What is read, and how many bytes of it were.
    var file: FollowedFile?
    var readBytes = 0

    mutating func apply(_ text: String) {
      var changes: [DeviceID: DeviceLabels] = [:]
      for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
        lines += 1
        if let line = LabelLine(line) {
          changes[line.device] = line.labels
        } else {
          malformedLines.append(lines)
        }
      }
      index.apply(changes)
    }
  }

  private let directory: DataDirectory
  private let state = Mutex(State())

  /// Lines that count no more before the file is written anew.
  private static let spareLines = 1000

  package init(_ directory: DataDirectory) { self.directory = directory }

  /// Reads the file first.
  package init(reading directory: DataDirectory) throws {
    self.directory = directory
    try refresh()
  }

  /// All labels as they were last read.
  package var index: LabelIndex { state.withLock { $0.index } }

  package func read<Value>(_ body: (borrowing LabelIndex) throws -> Value) rethrows -> Value {
    try state.withLock { state in try body(state.index) }
  }

  /// The numbers of lines that are malformed, and count for nothing.
  package var malformedLines: [Int] { state.withLock { $0.malformedLines } }

  // MARK: Reading

  /// Reads what was added to the file since the last call. Costs two system calls if nothing was.
  package func refresh() throws {
    try state.withLock { state in try Self.refresh(&state, directory.labelFile) }
  }

  /// All labels as the file has them now; as they were last read if it cannot be read.
  package func currentIndex() -> LabelIndex {
    try? refresh()
    return index
  }

  private static func refresh(_ state: inout State, _ path: String) throws(FileError) {
    if state.file?.isStill(at: path) != true {
      state = State()
      state.file = try FollowedFile(path)
    }
    guard let added = try state.file?.bytes(from: state.readBytes) else { return }
    // A line without an end is still being written, or was never completed.
    guard let end = added.lastIndex(of: 0x0a) else { return }
    state.apply(String(decoding: added[...end], as: UTF8.self))
    state.readBytes += end + 1
  }

  // MARK: Changes

  /// Changes labels, durably. `edit` sees all labels as they are now, and nobody else changes any meanwhile.
  package func change(_ edit: (borrowing LabelIndex) throws -> [DeviceID: DeviceLabels]) throws {
    try directory.changing {
      // Nobody waits for the disk who only reads.
      let (changes, readBytes) = try state.withLock { state in
        try Self.refresh(&state, directory.labelFile)
        return (try edit(state.index), state.readBytes)
      }
      guard !changes.isEmpty else { return }
      try removeUnfinishedLine(readBytes)
      let lines = changes.sorted { $0.key.rawValue < $1.key.rawValue }
        .map { LabelLine($0.key, $0.value).text }.joined()
      let isNew = !Files.exists(directory.labelFile)
      try OpenFile(appendingTo: directory.labelFile).append(lines, syncs: true)
      if isNew { try Files.syncFolder(of: directory.labelFile) }
      try refresh()
      try rewrite()
    }
  }

  /// What a writer left that was killed, or had no room: another line must not begin behind it.
  private func removeUnfinishedLine(_ readBytes: Int) throws(FileError) {
    let path = directory.labelFile
    guard unsafe truncate(path, readBytes) == 0 || errno == ENOENT else {
      throw FileError(path: path, operation: "truncate", code: errno)
    }
  }

  private func rewrite() throws {
    let (index, lines) = state.withLock { ($0.index, $0.lines) }
    guard lines > 2 * index.deviceCount + Self.spareLines else { return }
    let text = index.devices.map { LabelLine($0, index.labels(of: $0)).text }.joined()
    try Files.write(text, to: directory.labelFile, isPrivate: true)
    try refresh()
  }
}

extension DataDirectory {
  package var labelFile: String { "\(path)/devices.tsv" }
}
