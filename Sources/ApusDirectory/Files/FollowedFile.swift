import Glibc

/// A file that is read while others append to it. While it is open, no other file gets its number, so a file that took
/// its place is recognised.
final class FollowedFile: Sendable {
  private let path: String
  private let descriptor: Int32
  private let identity: FileIdentity

  /// Nil if there is no such file.
  init?(_ path: String) throws(FileError) {
    var status = stat()
    descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0, unsafe fstat(descriptor, &status) == 0 else {
      if errno == ENOENT { return nil }
      throw FileError(path: path, operation: "read", code: errno)
    }
    self.path = path
    identity = FileIdentity(status)
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Whether the path leads to this file, which has at least `byteCount` bytes: one with less was overwritten.
  func isStill(at path: String, from byteCount: Int) -> Bool {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_size >= byteCount else { return false }
    return FileIdentity(status) == identity
  }

  /// The bytes from `start` to the end; empty at the end.
  func bytes(from start: Int) throws(FileError) -> [UInt8] {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else {
      throw FileError(path: path, operation: "read", code: errno)
    }
    var bytes = [UInt8](repeating: 0, count: max(0, Int(status.st_size) - start))
    var count = 0
    while count < bytes.count {
      let read = unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe pread(
          descriptor, buffer.baseAddress?.advanced(by: count), buffer.count - count, start + count)
      }
      if read < 0, errno == EINTR { continue }
      guard read >= 0 else { throw FileError(path: path, operation: "read", code: errno) }
      if read == 0 { break }
      count += read
    }
    bytes.removeLast(bytes.count - count)
    return bytes
  }
}
