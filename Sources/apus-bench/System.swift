import ApusCommand
import Glibc

/// Prints text on standard error.
func report(_ text: String) {
  let bytes = Array(text.utf8)
  unsafe bytes.withUnsafeBytes { buffer in
    _ = unsafe write(STDERR_FILENO, buffer.baseAddress, buffer.count)
  }
}

private func failure(_ verb: String, _ path: String) -> CommandFailure {
  CommandFailure(
    .configuration, "cannot \(verb) \(path): \(unsafe String(cString: strerror(errno)))")
}

/// The text of a small file.
func readText(_ path: String) throws(CommandFailure) -> String {
  guard let file = unsafe fopen(path, "re") else { throw failure("read", path) }
  defer { unsafe fclose(file) }
  var text: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 65_536)
  while true {
    let count = unsafe fread(&chunk, 1, chunk.count, file)
    if count == 0 { break }
    text += chunk[..<count]
  }
  guard unsafe ferror(file) == 0 else { throw failure("read", path) }
  return String(decoding: text, as: UTF8.self)
}

/// Replaces a file atomically, so that readers never see a part of it.
func writeText(_ text: String, to path: String) throws(CommandFailure) {
  let temporary = "\(path).new"
  guard let file = unsafe fopen(temporary, "we") else { throw failure("write", temporary) }
  let bytes = Array(text.utf8)
  let isWritten = unsafe fwrite(bytes, 1, bytes.count, file) == bytes.count
  guard unsafe fclose(file) == 0, isWritten else { throw failure("write", temporary) }
  guard unsafe rename(temporary, path) == 0 else { throw failure("write", path) }
}

/// Raises the descriptor limit as far as the system allows.
func raiseDescriptorLimit() {
  var limit = rlimit()
  guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
  limit.rlim_cur = limit.rlim_max
  unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

/// Nanoseconds of the monotonic clock, which all processes of the machine share.
func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Nanoseconds since the given time; 0 for a future time.
func sinceNanoseconds(_ time: UInt64) -> UInt64 {
  let now = monotonicNanoseconds()
  return now > time ? now - time : 0
}

/// The descriptor limit after `raiseDescriptorLimit`.
func descriptorLimit() -> Int {
  var limit = rlimit()
  guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
    return 1024
  }
  return Int(clamping: limit.rlim_max)
}
