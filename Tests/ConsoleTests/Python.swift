import Foundation
import UnittestRunner

/// The scripts of the folder Browser.
enum Python {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "Browser")
  private static let root = folder.deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// The Python with the third-party clients; `scripts/setup.sh test` installs it.
  static let withClients = root.appending(path: ".venv/bin/python").path

  /// The program of this package, built beside the tests.
  static var apus: String {
    builtPrograms(with: "apus", root: root)?.appending(path: "apus").path ?? "apus"
  }

  /// Runs a script of the folder to its end.
  static func run(
    _ script: String, _ arguments: [String] = [], python: String = "python3"
  ) throws -> UnittestRun {
    try UnittestRun(folder.appending(path: script), arguments, python: python)
  }
}
