import Testing

/// Checks each rule with a sample that breaks it: a rule that cannot fail would be useless.
@Suite("Each rule can fail")
struct CanaryTests {
  private func swift(_ text: String, in path: String) -> SourceText {
    SourceText(path: "Sources/" + path, text: text)
  }

  @Test(
    "An import that points up or sideways, or to a banned module, is found",
    arguments: [
      ("ApusModel", "import ApusWire"),
      ("ApusModel", "import Glibc"),
      ("ApusWire", "package import Glibc"),
      ("ApusCore", "internal import Glibc"),
      ("ApusTLS", "import Glibc"),
      ("ApusCore", "public import ApusServer"),
      ("ApusCore", "import Synchronization"),
      ("ApusHTTP2", "import COpenSSL"),
      ("ApusTLS", "import ApusWire"),
      ("ApusLoop", "import ApusModel"),
      ("ApusStore", "import Dispatch"),
      ("ApusServer", "@preconcurrency import Foundation"),
      ("ApusServer", "@_spi(Internals) private import struct Foundation.URL"),
      ("ApusServer", "import FoundationEssentials"),
      ("ApusClient", "let value = 1; import ApusStore"),
      ("ApusDevice", "import ApusHTTP2"),
      ("ApusTesting", "import Testing"),
      ("apus", "import Foundation"),
      ("apus-bench", "import ApusServer"),
      ("ApusNew", "import ApusModel"),
    ])
  func badImport(target: String, text: String) {
    let findings = LayerRule.findings(in: swift("// Why.\n" + text + "\n", in: target + "/A.swift"))
    #expect(findings.count == 1)
    #expect(findings.allSatisfy { !$0.remedy.isEmpty })
  }

  @Test(
    "An import that the layers allow is not found",
    arguments: [
      ("ApusModel", "// import Foundation"),
      ("ApusModel", "/* import Foundation\n /* import Glibc */\n import Dispatch */"),
      ("ApusModel", "let text = \"\"\"\nimport Foundation\n\"\"\""),
      ("ApusWire", "public import ApusModel"),
      ("ApusTLS", "import COpenSSL\nimport CShims\nimport Synchronization"),
      ("apus", "import FoundationEssentials"),
    ])
  func goodImport(target: String, text: String) {
    #expect(LayerRule.findings(in: swift(text, in: target + "/A.swift")).isEmpty)
  }

  @Test(
    "A reference that points up or sideways is found, and one that points down is not",
    arguments: [
      ("Shared", "let worker: Worker", 1),
      ("Provider", "func push(to device: CourierConnection?) {}", 1),
      ("Worker", "let device: [CourierConnection] = []", 0),
      ("Courier", "// Worker", 0),
      ("New", "let value = 1", 1),
    ])
  func folders(folder: String, text: String, count: Int) {
    let files = [
      swift("final class Worker {}", in: "ApusServer/Worker/Worker.swift"),
      swift(
        "package final class CourierConnection: A {}", in: "ApusServer/Courier/Courier.swift"),
      swift(text, in: "ApusServer/\(folder)/File.swift"),
    ]
    #expect(FolderRule.findings(in: files).count == count)
  }

  @Test("A finding names the file, the line and the remedy")
  func findingText() throws {
    let file = swift("\nimport ApusModel\nimport Dispatch\n", in: "ApusWire/A.swift")
    let finding = try #require(LayerRule.findings(in: file).first)
    #expect(
      finding.description.hasPrefix("Sources/ApusWire/A.swift:3: ApusWire must not import Dispatch")
    )
  }

  @Test(
    "`unsafe` in a layer without C handles is found",
    arguments: [
      ("ApusModel/A.swift", "return unsafe pointer[0]", 1),
      ("ApusWire/A.swift", "nonisolated(unsafe) var a = 1", 1),
      ("ApusCore/A.swift", "@unsafe func a() {}", 1),
      ("ApusCore/A.swift", "let a = \"\\(unsafe b)\"", 1),
      ("ApusCore/A.swift", "// unsafe\nlet a = \"unsafe\", isUnsafe = true", 0),
      ("ApusModel/Bytes.swift", "return unsafe pointer[0]", 0),
      ("ApusTLS/A.swift", "return unsafe pointer[0]", 0),
    ])
  func unsafeWord(path: String, text: String, count: Int) {
    #expect(UnsafeRule.findings(in: swift(text, in: path)).count == count)
  }

  @Test("A long file is found, and an exception can only shrink")
  func longFile() {
    func findings(lines: Int, allowed: Int? = nil) -> Int {
      let file = swift(String(repeating: "a\n", count: lines), in: "ApusWire/A.swift")
      let exceptions = allowed.map { [file.path: SizeRule.Exception(lines: $0, reason: "canary")] }
      return SizeRule.lengthFindings(in: file, exceptions: exceptions ?? [:]).count
    }
    #expect(findings(lines: SizeRule.maximumLines) == 0)
    #expect(findings(lines: SizeRule.maximumLines + 1) == 1)
    #expect(findings(lines: 500, allowed: 500) == 0)
    #expect(findings(lines: 501, allowed: 500) == 1)
    #expect(findings(lines: 499, allowed: 500) == 1)
    #expect(findings(lines: 20, allowed: 500) == 1)
  }

  @Test("A long line is found")
  func longLine() {
    let text = String(repeating: "ä", count: SizeRule.maximumColumns)
    #expect(SizeRule.columnFindings(in: swift(text, in: "ApusWire/A.swift")).isEmpty)
    let findings = SizeRule.columnFindings(in: swift("\n\(text)b\n", in: "ApusWire/A.swift"))
    #expect(findings.map(\.line) == [2])
  }

  @Test(
    "A wire name in a literal is found",
    arguments: [
      ("ApusServer", "let a = \"apns-topic\"", 1),
      ("ApusClient", "let a = \"\\(b)\\r\\napns-collapse-id: x\"", 1),
      ("apus", "let a = #\"{\"reason\":\"BadDeviceToken\"}\"#", 1),
      ("ApusServer", "let a = \"\"\"\n  {\n  \"reason\": \"TooManyRequests\"}\n  \"\"\"", 1),
      ("ApusServer", "let a = \"Forbidden\"", 1),
      ("ApusServer", "let a = \"Forbidden fruit\"", 0),
      ("ApusTLS", "let a = \"apns-security-v3\"", 0),
      ("ApusServer", "// \"apns-topic\"\nlet a = HeaderName.apnsTopic", 0),
      ("ApusModel", "case .badDeviceToken: \"BadDeviceToken\"", 0),
    ])
  func wireName(target: String, text: String, count: Int) {
    #expect(VocabularyRule.findings(in: swift(text, in: target + "/A.swift")).count == count)
  }

  @Test(
    "A reference to something outside the repository is found",
    arguments: [
      ("See /" + "work/notes.txt.", 1),
      ("in `/" + "home/somebody/apus`", 1),
      ("as Issue " + "#12 says", 1),
      ("see DESIGN" + ".md, section 3", 1),
      ("Sources/frame" + "work/a", 0),
      ("a network of issues", 0),
    ])
  func outsideReference(text: String, count: Int) {
    let file = SourceText(path: "README.md", text: text)
    #expect(SelfContainedRule.findings(in: file).count == count)
  }

  @Test(
    "A document that names a file or declaration that does not exist is found",
    arguments: [
      ("`ApusWire/Frame.swift`, `Sources/ApusWire/Frame.swift` and `ApusWire`", 0),
      ("`ApusWire/Frames.swift` and `Frame.swift`", 2),
      ("`Frame`, `Frame.Kind`, `Frame.Kind.end` and `Frame.byteCount`", 0),
      ("`Frames`, `Frame.bytes` and `Kind.byteCounts`", 3),
      ("`Frame.read`, `Frame.read(_:into:)`, `read(_:into:)` and `init(kind:)`", 0),
      ("`Frame.read(_:)` and `read(into:)`", 2),
      ("`apus dev`, `--listen`, `apus_open`, `SETTINGS`, `directory.conf` and `frame`", 0),
      ("```\nFrames `Frames`\n```\nan open `span of\ntwo lines`, then `Frames`", 1),
    ])
  func missingName(text: String, count: Int) {
    let source = """
      /// A Frames in a comment.
      package struct Frame<Value: Sendable> {
        enum Kind { case end(Int) }
        var byteCount: Int { "Frames".count }
        init(kind: Kind) {}
        mutating func read<Target>(
          _ value: [Int: Value], into target: inout Target, _: Int...
        ) {}
        mutating func read(_ value: Value, into target: (Int, Int)) -> Bool { true }
      }
      """
    let file = swift(source, in: "ApusWire/Frame.swift")
    let findings = DocumentRule.nameFindings(
      in: SourceText(path: "ARCHITECTURE.md", text: text), paths: DocumentRule.paths(of: [file]),
      sources: [Declarations(file)])
    #expect(findings.count == count)
    #expect(findings.allSatisfy { !$0.remedy.isEmpty })
  }

  @Test(
    "A link that leads nowhere is found",
    arguments: [
      ("[a](../README.md), [`b`](b.md), [c](.), [d](https://example.com/x) and [e](doc:Push)", 0),
      ("[a](README.md), [`b`](../Documentation/c.md) and [c](../../README.md)", 3),
      ("[a](b.md#rows-and-columns), [b](#here-2) and [c](../README.md#unchecked)\n\n## Here 2", 0),
      ("[a](b.md#rows) and [b](#there)\n\n```\n## There\n```", 2),
      ("`[a](nowhere.md)` and\n```\n[a](nowhere.md)\n```", 0),
    ])
  func deadLink(text: String, count: Int) {
    let file = SourceText(path: "Documentation/a.md", text: text)
    let other = SourceText(
      path: "Documentation/b.md", text: "# `Rows`, and [columns](c.md)\n\nRows\n")
    let anchors = [
      file.path: DocumentRule.anchors(of: file), other.path: DocumentRule.anchors(of: other),
    ]
    let existing: Set = ["README.md", "Documentation", file.path, other.path]
    let findings = DocumentRule.linkFindings(
      in: file, exists: existing.contains, anchors: { anchors[$0] })
    #expect(findings.count == count)
  }
}

@Suite("Swift scanner: comments and literals")
struct SwiftScannerTests {
  @Test("Comments are removed, and lines stay")
  func comments() {
    let file = SourceText(
      path: "Sources/A.swift", text: "let a = 1  // one\n/* two\n /* three */\n */ let b = 2\n")
    #expect(file.code == ["let a = 1  ", "", "", " let b = 2"])
  }

  @Test("Interpolations are code, and the text between them is not")
  func interpolation() {
    let file = SourceText(path: "Sources/A.swift", text: #"print("a \(f("b", (c))) d") // e"#)
    #expect(file.code == [#"print("(f(", (c)))) "#])
    #expect(file.literals.map(\.text) == ["a ", "b", " d"])
  }

  @Test("Raw and multi-line strings end at their delimiters")
  func rawStrings() {
    let text = "let a = #\"b\"c\\(d\"#, e = \"\"\"\n  \"f\"\n  \"\"\"\nlet g = \"\\\"//\""
    let file = SourceText(path: "Sources/A.swift", text: text)
    #expect(file.literals.map(\.text) == ["b\"c\\(d", "\n  \"f\"\n  ", " //"])
    #expect(file.literals.map(\.line) == [1, 1, 4])
    #expect(file.code.last == "let g = \"")
  }
}
