import Testing

/// Checks the rules against the repository.
@Suite("The repository is tidy")
struct TidyTests {
  @Test("The sources are found")
  func sourcesFound() {
    #expect(Repository.targets.contains("ApusModel"))
    #expect(Repository.files.contains { $0.path == "Package.swift" })
  }

  @Test("Imports follow the layers")
  func layers() { expectNone(Repository.sources.flatMap(LayerRule.findings)) }

  @Test("Each row of the layer table has its target")
  func tableHasNoDeadRows() {
    #expect(Set(LayerRule.table.keys).subtracting(Repository.targets).isEmpty)
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

  @Test("Each exception names an existing file")
  func exceptionsAreAlive() {
    let listed =
      Array(UnsafeRule.exceptions.keys) + SizeRule.exceptions.keys + VocabularyRule.exceptions.keys
    #expect(Set(listed).subtracting(Repository.files.map(\.path)).isEmpty)
  }
}
