import ApusDirectory
import ApusServer
import ApusTesting
import Testing

@Suite("Changes of directory.conf")
struct DirectoryTextTests {
  private static let text = """
    # ours
    [team AAAAAAAAAA]
    name = One

    [key BBBBBBBBBB]
    # the old one
    team = AAAAAAAAAA
      revoked=no
    [app com.example.app]
    id = 1
    """

  private func section(_ kind: String) throws -> SectionFile.Section {
    try #require(SectionFile(text: Self.text).sections.first { $0.kind == kind })
  }

  @Test("A section is added after an empty line, and the last line gets its line ending")
  func append() {
    var text = DirectoryText(Self.text)
    text.append(.init(kind: "team", name: "CCCCCCCCCC", values: [("name", "Two")]))
    #expect(text.text == Self.text + "\n\n[team CCCCCCCCCC]\nname = Two\n")
  }

  @Test("A value is changed in place, or added below the heading")
  func set() throws {
    var text = DirectoryText(Self.text)
    try text.set("revoked", to: "yes", in: section("key"))
    #expect(text.text == Self.text.replacing("  revoked=no", with: "revoked = yes") + "\n")
    try text.set("retention", to: "3", in: section("app"))
    #expect(text.text.hasSuffix("[app com.example.app]\nretention = 3\nid = 1\n"))
  }

  @Test("A section is removed with its contents, and nothing else")
  func remove() throws {
    var text = DirectoryText(Self.text)
    try text.remove(section("key"))
    #expect(
      text.text
        == "# ours\n[team AAAAAAAAAA]\nname = One\n\n[app com.example.app]\nid = 1\n")
    var other = DirectoryText(Self.text)
    try other.remove(section("app"))
    #expect(other.text.hasSuffix("  revoked=no\n"))
  }

  @Test("A change that would make the directory invalid is refused, and the file stays unchanged")
  func refused() throws {
    let directory = try TestDirectory()
    let before = try Files.readText(directory.data.directoryFile)
    #expect {
      try directory.data.edit { text, _ in
        text.append(
          .init(
            kind: "app", name: "com.example.new", values: [("id", "1"), ("team", "NOSUCHTEAM")])
        )
      }
    } throws: { error in
      let text = "\(error)"
      return text.contains("NOSUCHTEAM") && text.contains("nothing was changed")
    }
    #expect(try Files.readText(directory.data.directoryFile) == before)
  }
}
