import ApusConsole
import Foundation
import Testing

/// The files of the page, as they are in the repository and as the program has them.
@Suite("The console's files")
struct AssetTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Sources/ApusConsole/Assets")

  private static func text(_ asset: DevAsset) -> String {
    String(decoding: asset.bytes, as: UTF8.self)
  }

  private static func assets(_ suffixes: String...) -> [DevAsset] {
    DevAssets.all.filter { asset in suffixes.contains { asset.name.hasSuffix($0) } }
  }

  @Test("Exactly the files of the folder are served, unchanged")
  func complete() throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).sorted()
    #expect(DevAssets.all.map(\.name).sorted() == names)
    for name in names {
      let asset = try #require(DevAssets.asset(name))
      let file = try Data(contentsOf: Self.folder.appending(path: name))
      #expect(asset.bytes == [UInt8](file), "\(name)")
    }
  }

  @Test("The service's page differs only in its mark")
  func ofService() throws {
    #expect(DevAssets.ofService.count == DevAssets.all.count)
    for (own, other) in zip(DevAssets.ofService, DevAssets.all) where own.bytes != other.bytes {
      #expect(own.name == "index.html")
      let text = Self.text(own)
      #expect(text.contains("<html data-kind=\"service\" lang=\"en\">"))
      #expect(text.replacing(" data-kind=\"service\"", with: "") == Self.text(other))
    }
  }

  @Test("Each file has the right content type")
  func types() {
    let types = [
      "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
      "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
    ]
    for asset in DevAssets.all {
      let suffix = asset.name.split(separator: ".").last.map(String.init) ?? ""
      #expect(asset.contentType == types[suffix], "\(asset.name)")
    }
    #expect(DevAssets.asset("../DevAssets.swift") == nil)
  }

  @Test("Each referenced file is served")
  func references() {
    for asset in Self.assets(".html", ".js", ".css") {
      for match in Self.text(asset).matches(of: #/["'`(]/assets/([^"'`#$)]+)/#) {
        let name = String(match.1)
        #expect(DevAssets.asset(name) != nil, "\(asset.name) names \(name)")
      }
    }
  }

  @Test("The page loads nothing from elsewhere")
  func ownFilesOnly() {
    for asset in DevAssets.all {
      let places = Self.text(asset).matches(of: #/https?://[^\s"'`)]+/#).map { String($0.0) }
      // The namespace of SVG, which browsers do not load.
      #expect(places.filter { $0 != "http://www.w3.org/2000/svg" } == [], "\(asset.name)")
    }
  }

  @Test("No text can become markup, and the files comply with the policy")
  func noMarkup() throws {
    let banned = [
      "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "srcdoc",
      "createContextualFragment", "setHTML", "eval(", "new Function", "javascript:", "style=",
    ]
    for asset in Self.assets(".html", ".js") {
      let text = Self.text(asset)
      for word in banned { #expect(!text.contains(word), "\(asset.name) has \(word)") }
    }
    let page = try Self.text(#require(DevAssets.asset("index.html")))
    #expect(page.matches(of: #/<script(?![^>]* src=)/#).isEmpty)
    #expect(page.matches(of: #/ on\w+=/#).isEmpty)
    #expect(!page.contains("<style"))
  }

  @Test("The policy lets the page run its own files and nothing else")
  func policy() {
    let rules = Dictionary(
      uniqueKeysWithValues: DevAssets.contentSecurityPolicy.split(separator: "; ").map { rule in
        let words = rule.split(separator: " ", maxSplits: 1)
        return (String(words[0]), String(words.last ?? ""))
      })
    #expect(rules["default-src"] == "'none'")
    #expect(rules["script-src"] == "'self'")
    #expect(rules["style-src"] == "'self'")
    #expect(rules["frame-ancestors"] == "'none'")
    #expect(rules["require-trusted-types-for"] == "'script'")
    #expect(!DevAssets.contentSecurityPolicy.contains("unsafe"))
  }
}
