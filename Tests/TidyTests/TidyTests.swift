import Testing

/// Checks the rules against the repository.
@Suite("The repository is tidy")
struct TidyTests {
  @Test("The sources are found")
  func sourcesFound() {
    #expect(Repository.targets.contains("ApusModel"))
    #expect(Repository.files.contains { $0.path == "Package.swift" })
  }

  @Test("No file is a compiler's output")
  func built() {
    let suffixes = [".o", ".a", ".so", ".swiftmodule", ".profraw", ".pyc"]
    #expect(Repository.paths.filter { path in suffixes.contains(where: path.hasSuffix) } == [])
  }

  @Test("Imports follow the layers")
  func layers() { expectNone(Repository.sources.flatMap(LayerRule.findings)) }

  @Test("Each row of the layer table has its target")
  func tableHasNoDeadRows() {
    #expect(Set(LayerRule.table.keys).subtracting(Repository.targets).isEmpty)
  }

  @Test("References between the folders of ApusServer point down")
  func folders() { expectNone(FolderRule.findings(in: Repository.sources)) }

  @Test("Each folder of the order exists")
  func folderOrder() {
    let files = Repository.sources.filter { $0.target == FolderRule.target }
    #expect(Set(FolderRule.order) == Set(files.compactMap(FolderRule.folder)))
  }

  @Test("`unsafe` occurs only in layers that own C handles")
  func unsafeWords() { expectNone(Repository.sources.flatMap(UnsafeRule.findings)) }

  @Test("Source files stay short")
  func fileLengths() {
    expectNone(Repository.sources.flatMap { SizeRule.lengthFindings(in: $0) })
  }

  @Test("Lines stay short")
  func lineLengths() {
    let suffixes = [".swift", ".c", ".h", ".sh", ".py"]
    expectNone(
      Repository.files
        .filter { file in suffixes.contains { file.path.hasSuffix($0) } }
        .flatMap(SizeRule.columnFindings))
  }

  @Test("Wire names are spelled only in ApusModel")
  func vocabulary() { expectNone(Repository.sources.flatMap(VocabularyRule.findings)) }

  @Test("The repository speaks of itself alone")
  func selfContained() { expectNone(Repository.files.flatMap(SelfContainedRule.findings)) }

  @Test("ARCHITECTURE.md names only files and declarations that exist")
  func architecture() throws {
    let file = try #require(Repository.files.first { $0.path == "ARCHITECTURE.md" })
    let sources = Repository.sources.filter { $0.path.hasSuffix(".swift") }
    expectNone(
      DocumentRule.nameFindings(
        in: file, paths: DocumentRule.paths(of: Repository.files),
        sources: sources.map(Declarations.init)))
    let text = file.lines.joined(separator: "\n")
    #expect(Repository.targets.filter { !text.contains($0) }.isEmpty, "each target has a layer")
  }

  @Test("Relative links of Markdown files lead somewhere")
  func links() {
    let documents = Repository.files.filter { $0.path.hasSuffix(".md") }
    let anchors = Dictionary(
      uniqueKeysWithValues: documents.map { ($0.path, DocumentRule.anchors(of: $0)) })
    expectNone(
      documents.flatMap { file in
        DocumentRule.linkFindings(in: file, exists: Repository.has) { anchors[$0] }
      })
  }

  @Test("The change log and that of the Debian package begin with the program's version")
  func version() throws {
    let log = try #require(Repository.files.first { $0.path == "CHANGELOG.md" })
    let newest = try #require(log.lines.first { $0.hasPrefix("## ") })
    let program = try #require(Repository.sources.first { $0.path.hasSuffix("/Version.swift") })
    let version = try #require(
      program.lines.joined().firstMatch(of: #/version = "(\d+\.\d+\.\d+)"/#)?.1)
    #expect(newest.hasPrefix("## [\(version)] - ") || newest == "## [Unreleased]")
    let package = try #require(Repository.files.first { $0.path == "debian/changelog" })
    #expect(package.lines.first?.hasPrefix("apus (\(version)-") == true)
  }

  @Test("Each exception names an existing file")
  func exceptionsAreAlive() {
    let listed =
      Array(UnsafeRule.exceptions.keys) + SizeRule.exceptions.keys + VocabularyRule.exceptions.keys
    #expect(Set(listed).subtracting(Repository.files.map(\.path)).isEmpty)
  }
}
