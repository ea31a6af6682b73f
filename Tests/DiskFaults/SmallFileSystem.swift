import Foundation
import Glibc

/// A real file system of a few megabytes, mounted until this object is released. Mounting requires root.
package final class SmallFileSystem {
  package enum Kind: Sendable, CaseIterable {
    case tmpfs
    /// In a file behind a loop device; tmpfs if the system has none.
    case ext4
  }

  private let path: String
  private let image: String

  /// - Parameters:
  ///   - path: An empty folder.
  ///   - megabytes: Approximate usable size.
  package init(_ kind: Kind = .tmpfs, at path: String, megabytes: Int) throws {
    self.path = path
    image = "\(path).ext4"
    // The journal and tables take two megabytes.
    let isMounted =
      kind == .ext4 && FileManager.default.createFile(atPath: image, contents: nil)
      && truncate(image, (megabytes + 2) << 20) == 0
      && Self.run(
        "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "1024",
        "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
      && Self.run("mount", "-o", "loop,errors=remount-ro", image, path)
    if isMounted { return }
    unlink(image)
    guard mount("tmpfs", path, "tmpfs", 0, "size=\(megabytes)m") == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: ["errno": errno])
    }
  }

  deinit { unmount() }

  package func unmount() {
    umount2(path, Int32(MNT_DETACH))
    unlink(image)
  }

  private static func run(_ words: String...) -> Bool {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = words
    process.environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
  }

  /// Makes ext4 believe that the disk has failed, so that it becomes read-only.
  ///
  /// - Returns: False if this is not ext4.
  package func failDisk() throws -> Bool {
    let mounts = try String(contentsOfFile: "/proc/self/mounts", encoding: .utf8)
    for line in mounts.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count > 2, words[1] == path, words[2] == "ext4" else { continue }
      let device = URL(filePath: String(words[0])).lastPathComponent
      try "1".write(
        toFile: "/sys/fs/ext4/\(device)/trigger_fs_error", atomically: false, encoding: .utf8)
      return true
    }
    return false
  }

  /// Fills the remaining space with a file at `path`, which need not exist.
  package static func fill(_ path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { close(file) }
    // Large chunks leave the last bytes of a block free.
    var chunk = [UInt8](repeating: 0, count: 4096)
    while write(file, &chunk, chunk.count) > 0 {}
  }
}
