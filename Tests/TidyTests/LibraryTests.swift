import Foundation
import Testing

/// What a program gets that depends on the package. Read from the manifest, because a target may depend on more than it
/// imports.
@Suite("The libraries are light dependencies")
struct LibraryTests {
  private struct Manifest: Decodable {
    struct Target: Decodable {
      struct Setting: Decodable { var kind: [String: AnyValue] }
      /// One name by kind, such as `byName` and `target`, among other values.
      struct Dependency: Decodable {
        var name: String?

        init(from decoder: any Decoder) throws {
          let kinds = try [String: [AnyValue]](from: decoder)
          name = kinds.values.first?.first?.text
        }
      }
      var name: String
      var dependencies: [Dependency]
      var settings: [Setting]
    }
    struct Product: Decodable {
      var name: String
      var targets: [String]
    }
    var products: [Product]
    var targets: [Target]
  }

  /// A value of any kind, of which only text is kept.
  private struct AnyValue: Decodable {
    var text: String?

    init(from decoder: any Decoder) throws {
      text = try? decoder.singleValueContainer().decode(String.self)
    }
  }

  /// The manifest, as the package manager understands it.
  private static func manifest() throws -> Manifest {
    let scratch = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID())")
    defer { try? FileManager.default.removeItem(at: scratch) }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    // A build that is under way holds the lock of the usual folder.
    process.arguments = [
      "-u", "APUS_PURE", "swift", "package", "--package-path", Repository.root.path,
      "--scratch-path", scratch.path, "dump-package",
    ]
    let output = Pipe()
    process.standardOutput = output
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return try JSONDecoder().decode(Manifest.self, from: data)
  }

  @Test(
    "ApusClient and ApusDevice contain no part of the service, two libraries, and no unsafe flags"
  )
  func closure() throws {
    let manifest = try Self.manifest()
    let targets = Dictionary(uniqueKeysWithValues: manifest.targets.map { ($0.name, $0) })
    for (product, own) in [
      ("ApusClient", ["ApusClient", "ApusHTTP2"]),
      ("ApusDevice", ["ApusDevice", "ApusRandom"]),
    ] {
      var names = try #require(manifest.products.first { $0.name == product }).targets
      var closure: Set<String> = []
      while let name = names.popLast() {
        guard closure.insert(name).inserted else { continue }
        let target = try #require(targets[name])
        names += try target.dependencies.map { try #require($0.name) }
        let kinds = target.settings.flatMap(\.kind.keys)
        #expect(!kinds.contains("unsafeFlags"), "a package with them is no dependency: \(name)")
      }
      let shared: Set = [
        "ApusModel", "ApusWire", "ApusCore", "ApusTLS", "ApusTrust", "ApusLoop", "COpenSSL",
        "CShims", "CUV",
      ]
      #expect(closure == shared.union(own))
    }
  }
}
