import ApusDirectory
import ApusServer
import ApusTesting
import Testing

/// `sealing.keys` decides whether issued tokens stay valid, so its errors are reported precisely.
@Suite("Damage to sealing.keys")
struct SealingKeyFileTests {
  private static let key = String(repeating: "ab", count: 32)

  @Test(
    "A truncated file is reported with file, line, fault and remedy",
    arguments: [
      ("", 1, "the file has no key"), ("# heading\n\n", 3, "the file has no key"),
      ("1 = \(key)\n2 = abcd", 2, "key 2 needs 64 hexadecimal digits and has 4"),
      ("# heading\n1", 2, "not `number = 64 hexadecimal digits`"),
      ("1 = \(key)\n1 = \(key)\n", 2, "already defines the key 1"),
    ])
  func damaged(text: String, line: Int, fault: String) throws {
    let directory = try TestDirectory()
    let data = directory.data
    try Files.write(text, to: data.sealingFile, isPrivate: true)
    #expect {
      _ = try data.trust(generation: 1, allowsES512: false)
    } throws: { error in
      let words = "\(error)"
      return words.hasPrefix("\(data.sealingFile), line \(line): ") && words.contains(fault)
        && words.contains("from a backup")
    }
  }
}
