import ApusCore
import Testing

@Suite("Which releases run together")
struct ReleaseNumberTests {
  @Test(
    "The same release, and one and the next",
    arguments: [
      ("0.2.0", "0.2.7", true), ("0.2.0", "0.3.0", true), ("0.2.9", "0.4.0", false),
      ("0.9.1", "1.0.0", true), ("0.2.0", "1.0.3", true), ("0.9.0", "1.1.0", false),
      ("1.0.0", "2.0.0", true), ("0.9.0", "2.0.0", false), ("1.2", "1.2.0", true),
    ])
  func beside(_ one: String, _ other: String, _ together: Bool) throws {
    let (one, other) = (try #require(ReleaseNumber(one)), try #require(ReleaseNumber(other)))
    #expect(one.runsBeside(other) == together)
    #expect(other.runsBeside(one) == together)
  }

  @Test("What is no version", arguments: ["", "1", "a.b", "1.", ".1", "-1.0", "1.x"])
  func malformed(_ text: String) { #expect(ReleaseNumber(text) == nil) }
}
