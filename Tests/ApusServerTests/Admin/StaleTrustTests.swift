import ApusDirectory
import ApusModel
import ApusServer
import ApusTesting
import ApusWire
import Testing

/// A change of the data directory that cannot be read.
@Suite("Stale trust data, as an operator sees it")
struct StaleTrustTests {
  @Test("Metrics, readiness and status say so, and why, until the file is repaired")
  func stale() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let path = bench.service.directory.data.directoryFile
    let text = try Files.readText(path)
    try expectCurrent(bench)
    try Files.write("\(text)\n[key\n", to: path, isPrivate: false)
    bench.service.service.reload()
    let metrics = try bench.metrics()
    #expect(metrics["apus_trust_stale"] == "1")
    let since = try #require(metrics["apus_trust_stale_since_seconds"].flatMap { Int64($0) })
    #expect((0...60).contains(TestDirectory.nowSeconds - since))
    // It goes on with what it has.
    let ready = try bench.get("readyz")
    let sign = "trust data is stale since "
    #expect(ready.hasPrefix("ready\nwarning: \(sign)"))
    #expect(ready.contains("directory.conf"), "\(ready)")
    let status = try bench.json("v1", "status")
    #expect(status["ready"]?.bool == true)
    let problem = try #require(status["problem"]?.string)
    #expect(problem.hasPrefix(sign) && problem.contains("directory.conf"), "\(problem)")
    #expect(try bench.json("v1", "overview")["problem"]?.string == problem)
    #expect(bench.lines.all("directory not reloaded reason=").count == 1)
    try Files.write(text, to: path, isPrivate: false)
    bench.service.service.reload()
    try expectCurrent(bench)
  }

  private func expectCurrent(_ bench: MonitoredService) throws {
    let metrics = try bench.metrics()
    #expect(metrics["apus_trust_stale"] == "0")
    #expect(metrics["apus_trust_stale_since_seconds"] == "0")
    #expect(try bench.get("readyz") == "ready\n")
    #expect(try bench.json("v1", "status")["problem"] == nil)
  }
}
