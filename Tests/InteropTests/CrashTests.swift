import Foundation
import Testing

@Suite("A service that is killed, or gets all at once", .serialized)
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

  /// The short form of `make burst`.
  @Test(
    "Bursts to one connected device arrive once and in order, from every sender",
    .timeLimit(.minutes(30)))
  func bursts() throws {
    let script = Programs.root.appending(path: "Tests/Crash/burst.py")
    let programs = try Programs.product("apus").deletingLastPathComponent()
    let report = try Programs.json(
      Programs.run(
        URL(filePath: "/usr/bin/env"),
        [
          "python3", script.path, "--bin", programs.path, "--times", "1", "--notifications", "400",
        ]))
    #expect(report["bursts"] as? Int == 14)
    #expect(report["notifications"] as? Int == 5600)
    #expect(report["lost"] as? Int == 0)
    #expect(report["twice"] as? Int == 0)
    #expect(report["out_of_order"] as? Int == 0)
  }
}
