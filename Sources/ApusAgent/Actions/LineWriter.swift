import ApusLoop
import Glibc

/// Appends lines to files and FIFOs.
enum LineWriter {
  /// Room that a FIFO must have beside the line, because it stores whole pages.
  private static let slack: Int32 = 8192

  static func append(_ line: [UInt8], to path: String) -> ActionResult {
    var status = stat()
    if unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFIFO {
      return appendToFIFO(line, path)
    }
    let descriptor = unsafe open(
      path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0o600 as mode_t)
    guard descriptor >= 0 else { return .again("cannot open \(path): \(errorText(errno))") }
    defer { close(descriptor) }
    let end = lseek(descriptor, 0, SEEK_END)
    if StateFiles.append(line, to: descriptor), fsync(descriptor) == 0 || errno == EINVAL {
      return .done("written")
    }
    let code = errno
    // Without half a line, so that the next attempt does not follow one.
    if end >= 0 { _ = ftruncate(descriptor, end) }
    return .again("cannot write \(path): \(errorText(code))")
  }

  private static func appendToFIFO(_ line: [UInt8], _ path: String) -> ActionResult {
    let descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      return .again(
        errno == ENXIO ? "nobody reads \(path)" : "cannot open \(path): \(errorText(errno))")
    }
    defer { close(descriptor) }
    var used: Int32 = 0
    // F_GETPIPE_SZ, which is declared only with GNU extensions.
    let capacity = fcntl(descriptor, 1032)
    guard unsafe ioctl(descriptor, UInt(FIONREAD), &used) == 0,
      Int(capacity) - Int(used) >= line.count + Int(slack)
    else { return .again("the reader of \(path) is too slow") }
    return StateFiles.append(line, to: descriptor)
      ? .done("written") : .again("cannot write \(path): \(errorText(errno))")
  }
}
