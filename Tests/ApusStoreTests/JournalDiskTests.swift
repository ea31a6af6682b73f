import ApusModel
import DiskFaults
import Foundation
import Glibc
import Testing

@testable import ApusStore

@Suite(
  "A journal on a disk with little room", .enabled(if: getuid() == 0, "mounting takes root"))
struct JournalDiskTests {
  @Test(
    "It has all of its blocks from the start, or does not exist and uses none",
    arguments: SmallFileSystem.Kind.allCases)
  func blocks(kind: SmallFileSystem.Kind) throws {
    let root = NSTemporaryDirectory() + "apus-disk-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    defer { rmdir(root) }
    let disk = try SmallFileSystem(kind, at: root, megabytes: 12)
    defer { disk.unmount() }
    for path in ["new", "grows"].map({ "\(root)/\($0)" }) {
      if path.hasSuffix("grows") { try Data([1, 2, 3]).write(to: URL(filePath: path)) }
      #expect(throws: JournalFault.self) {
        try JournalMemory(mapping: path, byteCount: 64 << 20)
      }
      let left = try? Data(contentsOf: URL(filePath: path))
      #expect(left == (path.hasSuffix("grows") ? Data([1, 2, 3]) : nil))
    }
    let memory = try JournalMemory(mapping: "\(root)/small", byteCount: 1 << 20)
    SmallFileSystem.fill("\(root)/ballast")
    // Each page has its block, although the disk is full.
    let sevens = [UInt8](repeating: 7, count: memory.count)
    memory.write(sevens.span, at: 0)
    #expect(memory.bytes.copied() == sevens)
  }
}
