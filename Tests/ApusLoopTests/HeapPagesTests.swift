import Glibc
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct HeapPagesTests {
  @Test("What a crowd took is given back, with the pages of what is kept for the thread")
  func returned() async {
    // In a process of its own: nobody else takes or returns memory there.
    await #expect(processExitsWith: .success) {
      let before = try HeapPagesTests.privateKilobytes()
      // A small piece of each size that is kept, seven of each; between any two of them five pages.
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
      // The pages of the small ones would be 1,792 KB.
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
