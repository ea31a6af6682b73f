import Foundation
import Testing

@Suite("A service that is killed repeatedly", .serialized)
struct CrashTests {
  /// The short form of `make crash`, with a new seed each time, which failures print.
  @Test(
    "No accepted notification is lost, and nothing arrives that must not", .timeLimit(.minutes(30)))
  func killed() throws {
    let installation = try Installation()
    let issued = try Programs.json(
      Programs.run(
        installation.apus,
        ["cert", "--data", installation.directory.path, "--topic", Installation.topic, "--json"]))
    let report = try Programs.json(
      Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"log=$1; shift; "$0" "$@" 2>"$log" || { tail -n 60 "$log"; exit 1; }"#,
          Programs.product("apus-bench").path,
          installation.directory.appending(path: "kills.log").path, "crash",
          "--apus", installation.apus.path, "--data", installation.directory.path,
          "--certificate", issued["certificate_file"] as? String ?? "",
          "--key", issued["key_file"] as? String ?? "", "--authority", installation.authority,
          "--kills", "5",
        ]))
    #expect(report["kills"] as? Int == 5)
    #expect(report["lost"] as? Int == 0)
    #expect(report["violations"] as? Int == 0)
    #expect(report["without_final_state"] as? Int == 0)
    #expect(report["unaccounted"] as? Int == 0)
    #expect(report["delivered"] as? Int ?? 0 > 0)
    #expect(report["replaced"] as? Int ?? 0 > 0)
  }
}
