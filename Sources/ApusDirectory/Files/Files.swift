import ApusModel
import Glibc

/// What went wrong with a file, in words for the operator.
package struct FileError: Error, Sendable, CustomStringConvertible {
  package var path: String
  package var operation: String
  package var code: Int32

  package var description: String {
    "cannot \(operation) \(path): \(unsafe String(cString: strerror(code)))"
  }

  /// Whether the file is not there.
  package var isMissing: Bool { code == ENOENT }
}

/// Whole files, read and replaced.
package enum Files {
  /// Bytes of a file that is read whole: far above any key, certificate or configuration.
  private static let largest = 16 * 1024 * 1024

  package static func read(_ path: String) throws(FileError) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("read", path) }
    defer { Glibc.close(descriptor) }
    var content: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe chunk.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw failure("read", path)
      }
      if count == 0 { return content }
      content.append(contentsOf: chunk[..<count])
      if content.count > largest { throw FileError(path: path, operation: "read", code: EFBIG) }
    }
  }

  package static func readText(_ path: String) throws(FileError) -> String {
    String(decoding: try read(path), as: UTF8.self)
  }

  package static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// Puts a whole file in place of the old one, or leaves the old one as it was.
  ///
  /// Written beside it, synced and renamed over it; the folder is synced behind that, so that the new file survives a
  /// loss of power once this returns. `isPrivate` files are readable by their owner alone (0600), and
  /// are so from the first byte on.
  package static func write(
    _ content: [UInt8], to path: String, isPrivate: Bool
  ) throws(FileError) {
    let temporary = "\(path).new"
    unsafe unlink(temporary)
    try create(content, at: temporary, isPrivate: isPrivate)
    guard unsafe rename(temporary, path) == 0 else { throw failure("replace", path) }
    FileJournal.note(path)
    try syncFolder(of: path)
  }

  /// Makes a file where there is none, and syncs what is in it. Its name is durable once the folder is synced as well.
  package static func create(
    _ content: [UInt8], at path: String, isPrivate: Bool
  ) throws(FileError) {
    let mode: mode_t = isPrivate ? 0o600 : 0o644
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw failure("create", path) }
    defer { Glibc.close(descriptor) }
    do throws(FileError) {
      try writeAll(content.span, descriptor, path)
      guard fsync(descriptor) == 0 else { throw failure("sync", path) }
    } catch {
      unsafe unlink(path)
      throw error
    }
  }

  /// Reads a file of any length in parts.
  static func readParts(_ path: String, _ body: (Span<UInt8>) throws -> Void) throws {
    let source = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { throw failure("read", path) }
    defer { Glibc.close(source) }
    var chunk = [UInt8](repeating: 0, count: 1 << 20)
    while true {
      let count = unsafe chunk.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(source, buffer.baseAddress, buffer.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure("read", path) }
      if count == 0 { return }
      try body(chunk.span.extracting(first: count))
    }
  }

  /// Reads a file of any length, which must fit in memory.
  package static func readWhole(_ path: String) throws -> [UInt8] {
    var content: [UInt8] = []
    try readParts(path) { part in content.append(part) }
    return content
  }

  /// Appends to a file, readable by its owner alone (0600), that has `byteCount` bytes; what it has beyond them is
  /// removed first. Not synced.
  package static func append(
    _ content: [UInt8], to path: String, after byteCount: Int
  ) throws(FileError) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure("open", path) }
    defer { Glibc.close(descriptor) }
    guard ftruncate(descriptor, byteCount) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
      throw failure("truncate", path)
    }
    FileJournal.note(path, .appended(from: byteCount))
    try writeAll(content.span, descriptor, path)
  }

  /// Syncs what was written to a file, by whatever process.
  package static func sync(_ path: String) throws(FileError) {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open", path) }
    defer { Glibc.close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync", path) }
  }

  /// Copies a file of any length to a path where there is none, for its owner alone, and syncs what is in it.
  ///
  /// - Parameter body: Sees each part.
  static func copy(
    _ path: String, to other: String, _ body: (Span<UInt8>) -> Void = { _ in }
  ) throws {
    let target = unsafe open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard target >= 0 else { throw failure("create", other) }
    defer { Glibc.close(target) }
    try readParts(path) { part in
      body(part)
      try writeAll(part, target, other)
    }
    guard fsync(target) == 0 else { throw failure("sync", other) }
  }

  /// Whether there is a regular file at `path`.
  static func isFile(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  /// Makes a name durable that was added to a folder, replaced or removed there: fsync(2) of the file says nothing of
  /// the entry that leads to it.
  package static func syncFolder(of path: String) throws(FileError) {
    var folder = "."
    if let slash = path.lastIndex(of: "/") {
      folder = slash == path.startIndex ? "/" : String(path[..<slash])
    }
    let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open", folder) }
    defer { Glibc.close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync", folder) }
  }

  package static func write(_ text: String, to path: String, isPrivate: Bool) throws(FileError) {
    try write(Array(text.utf8), to: path, isPrivate: isPrivate)
  }

  fileprivate static func writeAll(
    _ content: Span<UInt8>, _ descriptor: Int32, _ path: String
  ) throws(FileError) {
    var written = 0
    while written < content.count {
      let count = unsafe content.withUnsafeBytes { buffer in
        unsafe Glibc.write(
          descriptor, buffer.baseAddress?.advanced(by: written), buffer.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw failure("write", path)
      }
      written += count
    }
  }

  /// Takes a file away, if it is there.
  package static func remove(_ path: String) {
    guard unsafe unlink(path) == 0 else { return }
    FileJournal.note(path)
  }

  /// Gives a file another name, in place of one that has it. Not durable by itself.
  package static func move(_ path: String, to other: String) throws(FileError) {
    guard unsafe rename(path, other) == 0 else { throw failure("rename", path) }
    FileJournal.note(path)
    FileJournal.note(other)
  }

  /// The bytes of a file; 0 for one that is not there.
  static func byteCount(_ path: String) -> Int {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? status.st_size : 0
  }

  /// When a file's content was changed last, Unix seconds; nil for one that is not there.
  package static func changedSeconds(_ path: String) -> Int64? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    return Int64(status.st_mtim.tv_sec)
  }

  /// The number of the file system that a path leads to; nil where there is nothing.
  static func fileSystem(of path: String) throws(FileError) -> UInt? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else {
      if errno == ENOENT { return nil }
      throw failure("read", path)
    }
    return UInt(status.st_dev)
  }

  /// The names in a directory, in no order; none where there is no such directory. One that is there and cannot be
  /// read is an error, because what it holds may matter.
  package static func names(in path: String) throws(FileError) -> [String] {
    guard let directory = unsafe opendir(path) else {
      if errno == ENOENT { return [] }
      throw failure("list", path)
    }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = unsafe readdir(directory) else {
        if errno != 0 { throw failure("list", path) }
        return names
      }
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { field in
        unsafe field.withMemoryRebound(to: CChar.self, capacity: 256) { text in
          unsafe String(cString: text)
        }
      }
      if name != "." && name != ".." { names.append(name) }
    }
  }

  /// Makes a directory and those above it, durable when this returns; one that is there is left as it is. Mode 0700.
  package static func makeDirectory(_ path: String) throws(FileError) {
    if unsafe mkdir(path, 0o700) == 0 { return try syncFolder(of: path) }
    if errno == EEXIST { return }
    guard errno == ENOENT, let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
      throw failure("make the directory", path)
    }
    try makeDirectory(String(path[..<slash]))
    guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else {
      throw failure("make the directory", path)
    }
    try syncFolder(of: path)
  }

  fileprivate static func failure(_ operation: String, _ path: String) -> FileError {
    FileError(path: path, operation: operation, code: errno)
  }
}

/// Which file it is, whatever its name.
struct FileIdentity: Equatable {
  private var device: UInt
  private var inode: UInt

  init(_ status: stat) {
    device = UInt(status.st_dev)
    inode = UInt(status.st_ino)
  }

  /// Nil if there is no file.
  init?(_ path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    self.init(status)
  }
}

/// A file that is open for appending. Each line is one `write`, so those of several processes do not mix.
@safe package struct OpenFile: ~Copyable {
  private let path: String
  private let descriptor: Int32
  private let identity: FileIdentity

  /// Makes it, readable by its owner alone (0600), where it is not there.
  package init(appendingTo path: String) throws(FileError) {
    descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    var status = stat()
    guard descriptor >= 0, unsafe fstat(descriptor, &status) == 0 else {
      throw Files.failure("open", path)
    }
    self.path = path
    identity = FileIdentity(status)
  }

  deinit { Glibc.close(descriptor) }

  /// Whether the path leads to this file, and not to another or none.
  func isStill(at path: String) -> Bool {
    FileIdentity(path) == identity
  }

  /// In one call of the system where the disk has room. With `syncs` it is on the disk when this returns.
  package func append(_ text: String, syncs: Bool) throws(FileError) {
    let bytes = Array(text.utf8)
    if FileJournal.current != nil {
      FileJournal.note(path, .appended(from: Files.byteCount(path)))
    }
    try Files.writeAll(bytes.span, descriptor, path)
    if syncs, fdatasync(descriptor) != 0 { throw Files.failure("sync", path) }
  }
}

/// What tells one state of a file from another without reading it.
package struct FileStamp: Equatable {
  private var device: UInt = 0
  private var inode: UInt = 0
  private var size: Int = 0
  private var seconds: Int = 0
  private var nanoseconds: Int = 0

  /// All zero for a file that is not there.
  package init(_ path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return }
    device = UInt(status.st_dev)
    inode = UInt(status.st_ino)
    size = status.st_size
    // Of the change of its state, which nobody can set back.
    seconds = status.st_ctim.tv_sec
    nanoseconds = status.st_ctim.tv_nsec
  }
}
