import ApusCommand
import Glibc

/// The file with a list of recipients, or standard input.
final class RecipientList: Sendable {
  let name: String
  /// Nil if unknown before the end.
  let totalBytes: Int64?
  private let descriptor: Int32

  init(_ invocation: Invocation) throws(CommandFailure) {
    name = try invocation.require(SendOptions.tokens)
    descriptor = name == "-" ? STDIN_FILENO : unsafe open(name, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      let reason = unsafe String(cString: strerror(errno))
      throw invocation.failure(
        .configuration, about: SendOptions.tokens, "cannot read \(name): \(reason)")
    }
    var facts = stat()
    let isFile = unsafe fstat(descriptor, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG
    totalBytes = isFile ? Int64(facts.st_size) : nil
  }

  deinit { if descriptor != STDIN_FILENO { close(descriptor) } }

  /// The next bytes; empty at the end. Nil if the run ended before bytes arrived: a pipe may be silent for a long time.
  func next(whileGoing isGoing: () -> Bool) throws(CommandFailure) -> [UInt8]? {
    while totalBytes == nil, isGoing() {
      var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      // `read` will report an error.
      if unsafe poll(&wait, 1, 200) != 0 { break }
    }
    guard isGoing() else { return nil }
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe piece.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      }
      if count >= 0 { return Array(piece[..<count]) }
      guard errno == EINTR else {
        let reason = unsafe String(cString: strerror(errno))
        throw CommandFailure(.failed, "cannot read \(name): \(reason)")
      }
    }
  }
}
