import Foundation
import Testing

/// The clients for devices in other languages (`Clients`), installed as their users do.
@Suite("Clients for devices", .timeLimit(.minutes(10)))
struct DeviceClientTests {
  @Test("The Python client passes the protocol's vectors, and its tests against a service")
  func python() throws {
    try run(
      """
      "$0" -m pip install --quiet --no-build-isolation --no-deps --no-index \
        --target installed Clients/python
      PYTHONPATH=installed exec "$0" -m unittest discover --start-directory Clients/python/tests
      """, atLeast: 18)
  }

  @Test("The C client passes the vectors, the document's session, and its tests against a service")
  func c() throws {
    try run(
      """
      make --silent --directory Clients/c
      exec "$0" -m unittest discover --start-directory Clients/c/tests
      """, atLeast: 7)
  }

  @Test("The Ruby client passes the vectors, the session, and its tests against a service")
  func ruby() throws {
    try run(
      #"exec "$0" -m unittest discover --start-directory Clients/ruby/tests"#, atLeast: 9)
  }

  /// Runs a script in a copy of what a client needs, because it builds beside its sources.
  private func run(_ script: String, atLeast expected: Int) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "clients-\(UUID())")
    defer { try? FileManager.default.removeItem(at: folder) }
    let prepare = #"set -e; mkdir "$2"; cp -r "$1/Clients" "$1/Documentation" "$2"; cd "$2""#
    let (apus, python) = try (Programs.product("apus"), Programs.python())
    let printed = try Programs.run(
      URL(filePath: "/usr/bin/env"),
      [
        "APUS=\(apus.path)", "/bin/bash", "-c", "{ \(prepare)\n\(script)\n} 2>&1", python.path,
        Programs.root.path, folder.path,
      ])
    let count = printed.firstMatch(of: #/Ran (\d+) tests in /#).flatMap { Int($0.1) } ?? 0
    #expect(
      count >= expected && printed.hasSuffix("OK\n") && !printed.contains("skipped"), "\(printed)")
  }
}
