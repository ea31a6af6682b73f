import Glibc
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct HeapPagesTests {
  @Test("Memory of a crowd is returned, including the pages of the thread's cache")
  func returned() async {
    // In a process of its own, where no other code allocates or frees memory.
    await #expect(processExitsWith: .success) {
      let before = try HeapPagesTests.privateKilobytes()
      // Seven pieces of each cached size, with five pages between any two of them.
      var small: [UnsafeMutableRawPointer?] = []
      var large: [UnsafeMutableRawPointer?] = []
      for index in 0..<448 {
        small.append(malloc(24 + index / 7 * 16))
        let piece = try #require(malloc(20_000))
        memset(piece, 1, 20_000)
        large.append(piece)
      }
      try #require(try HeapPagesTests.privateKilobytes() > before + 8000)
      for piece in large { free(piece) }
      for piece in small { free(piece) }
      HeapPages.returnFree()
      // The pages of the small pieces would be 1,792 KB.
      try #require(try HeapPagesTests.privateKilobytes() < before + 1000)
    }
  }

  private static func privateKilobytes() throws -> Int {
    let file = open("/proc/self/smaps_rollup", O_RDONLY)
    try #require(file >= 0)
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(file, &bytes, bytes.count)
    let text = String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
    let lines = text.split(separator: "\n").filter { $0.hasPrefix("Private_") }
    try #require(!lines.isEmpty)
    return lines.reduce(0) { sum, line in
      sum + (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
    }
  }
}
