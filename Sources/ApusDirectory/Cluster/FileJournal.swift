import Synchronization

/// Which files a change of the data directory has written and removed, for those that share them.
final class FileJournal: Sendable {
  enum Note: Sendable, Equatable {
    /// Written as a whole, or removed.
    case replaced
    /// Lines or records were added behind the first so many bytes.
    case appended(from: Int)
  }

  /// That of the change which this thread makes.
  @TaskLocal static var current: FileJournal?

  private let content = Mutex<[String: Note]>([:])

  var notes: [String: Note] { content.withLock { $0 } }

  /// Notes a file by its path, if anybody wants to know.
  static func note(_ path: String, _ note: Note = .replaced) {
    guard let current else { return }
    current.content.withLock { notes in
      switch (notes[path], note) {
      case (.replaced, _): break
      case (.appended(let earlier), .appended(let start)):
        notes[path] = .appended(from: min(earlier, start))
      case (nil, _), (.appended, .replaced): notes[path] = note
      }
    }
  }
}
