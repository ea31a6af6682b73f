import Foundation
import Testing

/// The clients for devices in other languages (`Clients`), installed as their users do.
@Suite("Clients for devices", .timeLimit(.minutes(10)))
struct DeviceClientTests {
  @Test("The Python client passes the protocol's vectors, and its tests against a service")
  func python() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "python-\(UUID())")
    defer { try? FileManager.default.removeItem(at: folder) }
    // pip builds inside the folder of the sources.
    let script = """
      set -e; mkdir -p "$2"; cp -r "$1/Clients" "$1/Documentation" "$2"
      "$0" -m pip install --quiet --no-build-isolation --no-deps --no-index --target "$2/installed" \
        "$2/Clients/python"
      cd "$2"; PYTHONPATH=installed exec "$0" -m unittest discover --start-directory Clients/python/tests
      """
    let (apus, python) = try (Programs.product("apus"), Programs.python())
    let printed = try Programs.run(
      URL(filePath: "/usr/bin/env"),
      [
        "APUS=\(apus.path)", "/bin/bash", "-c", "{ \(script); } 2>&1", python.path,
        Programs.root.path, folder.path,
      ])
    let count = printed.firstMatch(of: #/Ran (\d+) tests in /#).flatMap { Int($0.1) } ?? 0
    #expect(count >= 18 && printed.hasSuffix("OK\n") && !printed.contains("skipped"), "\(printed)")
  }
}
