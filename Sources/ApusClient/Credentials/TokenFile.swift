import ApusTrust
import Glibc

/// A file in which several processes with the same key share their provider token. More than one token in 20 minutes
/// for a key is an error (429 TooManyProviderTokenUpdates).
///
/// A process that needs a new token locks the file, and signs one only if no other process has done so.
struct TokenFile: Sendable {
  let path: String

  /// The token in the file if `isGood` accepts it, else one from `make`, which is then written to the file.
  ///
  /// If the file cannot be opened, locked or written, the token is just not shared.
  func token<Failure: Error>(
    isGood: (_ text: String) -> Bool, make: () throws(Failure) -> String
  ) throws(Failure) -> String {
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return try make() }
    defer { close(descriptor) }
    guard flock(descriptor, LOCK_EX) == 0 else { return try make() }
    if let text = read(descriptor), isGood(text) { return text }
    let text = try make()
    write(text, descriptor)
    return text
  }

  private func read(_ descriptor: Int32) -> String? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = unsafe pread(descriptor, &bytes, bytes.count, 0)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
  }

  /// The lock keeps others from reading a partial token. A token left partial by a crash is invalid and gets replaced.
  private func write(_ text: String, _ descriptor: Int32) {
    let bytes = Array(text.utf8)
    guard ftruncate(descriptor, 0) == 0 else { return }
    _ = unsafe pwrite(descriptor, bytes, bytes.count, 0)
  }
}
