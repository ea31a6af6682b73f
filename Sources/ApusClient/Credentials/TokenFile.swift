import ApusTrust
import Glibc

/// A file in which several processes with one key keep their provider token, so that all of them show the service the
/// same: more than one in 20 minutes for a key is an error (429 TooManyProviderTokenUpdates).
///
/// Whoever needs a new token takes the file's lock, and signs one only if nobody else has meanwhile.
struct TokenFile: Sendable {
  let path: String

  /// The token in the file if it is good, else the one that `make` makes, which is then in the file.
  ///
  /// A file that cannot be opened, locked or written costs nothing but the sharing.
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

  /// Under the lock nobody reads half of it; after a crash in between it is no token, and is replaced.
  private func write(_ text: String, _ descriptor: Int32) {
    let bytes = Array(text.utf8)
    guard ftruncate(descriptor, 0) == 0 else { return }
    _ = unsafe pwrite(descriptor, bytes, bytes.count, 0)
  }
}
