import Glibc

/// A small file that may be replaced while the client runs: its bytes, and whether they still match the disk.
struct WatchedFile {
  /// Distinguishes versions of a file, no matter which program wrote them.
  private struct Stamp: Equatable {
    var device: UInt = 0
    var inode: UInt = 0
    var bytes: Int = 0
    var seconds: Int = 0
    var nanoseconds: Int = 0
  }

  let path: String
  private(set) var bytes: [UInt8]
  private var stamp: Stamp

  /// Larger files are not keys or certificates.
  private static let byteLimit = 1 << 20

  init(_ path: String) throws(ClientConfigurationError) {
    self.path = path
    // Taken before reading, so that a write in between counts as a change.
    stamp = Self.stamp(path)
    bytes = try Self.read(path)
  }

  /// Reads the file again if it changed. False if it did not, or cannot be read now.
  mutating func reload() -> Bool {
    let current = Self.stamp(path)
    guard current != stamp, let fresh = try? Self.read(path) else { return false }
    stamp = current
    defer { bytes = fresh }
    return fresh != bytes
  }

  private static func stamp(_ path: String) -> Stamp {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return Stamp() }
    return Stamp(
      device: UInt(status.st_dev), inode: UInt(status.st_ino), bytes: Int(status.st_size),
      seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
  }

  private static func read(_ path: String) throws(ClientConfigurationError) -> [UInt8] {
    guard let file = unsafe fopen(path, "re") else {
      throw ClientConfigurationError(
        "cannot read \(path): \(unsafe String(cString: strerror(errno)))")
    }
    defer { unsafe fclose(file) }
    var bytes = [UInt8](repeating: 0, count: byteLimit)
    let count = unsafe fread(&bytes, 1, bytes.count, file)
    guard count < byteLimit else {
      throw ClientConfigurationError("\(path) is too large for a key or a certificate")
    }
    return Array(bytes[..<count])
  }
}
