import ApusLoop
import Glibc

/// Reading and replacing files of the agent's state.
enum StateFiles {
  /// The contents; nil if the file does not exist. At most 64 MB.
  static func read(_ path: String) throws(AgentFault) -> [UInt8]? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw failure("read", path)
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while bytes.count < 64 << 20 {
      let count = unsafe buffer.withUnsafeMutableBytes {
        unsafe Glibc.read(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure("read", path) }
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
    throw AgentFault("\(path) is larger than 64 MB")
  }

  static func readText(_ path: String) throws(AgentFault) -> String? {
    try read(path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Replaces a file atomically and durably, with mode 0600.
  static func replace(_ path: String, _ text: String) throws(AgentFault) {
    let temporary = "\(path).new"
    let descriptor = unsafe open(
      temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600 as mode_t)
    guard descriptor >= 0 else { throw failure("create", temporary) }
    let isWritten = append(Array(text.utf8), to: descriptor) && fsync(descriptor) == 0
    let failure = failure("write", temporary)
    close(descriptor)
    guard isWritten, unsafe rename(temporary, path) == 0 else { throw failure }
    syncDirectory(of: path)
  }

  /// Whether all bytes were written, in one call if possible.
  static func append(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  static func syncDirectory(of path: String) {
    let slash = path.lastIndex(of: "/") ?? path.startIndex
    let directory = slash == path.startIndex ? "/" : String(path[..<slash])
    let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    fsync(descriptor)
    close(descriptor)
  }

  /// Makes a folder and those above it.
  static func makeDirectory(_ path: String, mode: mode_t) throws(AgentFault) {
    var made = ""
    for part in path.split(separator: "/") {
      made += "/" + part
      if unsafe mkdir(made, mode) != 0, errno != EEXIST { throw failure("create", made) }
    }
  }

  static func failure(_ operation: String, _ path: String) -> AgentFault {
    AgentFault("cannot \(operation) \(path): \(errorText(errno))")
  }
}
