import ApusModel
import ApusTesting
import ApusWeb
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusAdmin
@testable import ApusServer

@Suite("Changes that the administration API refuses")
struct RotationGuardTests {
  @Test("Finishing a rotation that locks out known devices requires force")
  func finish() throws {
    let directory = try TestDirectory()
    let service = try TestService(directory, .init { $0.isEphemeral = false })
    let device = try service.connect()
    try device.enable(TestDirectory.topic)
    service.stop()
    let bench = try AdminBench(directory)
    let path = "/v1/rotations"
    #expect(try bench.ask("POST", path, #"{"what":"device-authority"}"#).status == 200)
    let finish = #"{"what":"device-authority","finish":true"#
    let refused = try bench.ask("POST", path, finish + "}")
    #expect(refused.status == 409)
    #expect(refused.text.contains("1 known device could no longer connect"), "\(refused.text)")
    #expect(refused.text.contains(device.device.id.text))
    #expect(try bench.data.certificates(of: .devices).count == 2)
    let forced = try bench.ask("POST", path, finish + #","force":true}"#)
    #expect(forced.status == 200)
    #expect(forced.text.contains(#""locked_out":1"#), "\(forced.text)")
    #expect(try bench.data.certificates(of: .devices).count == 1)
  }

  @Test(
    "A missing or replaced data directory makes the service unready, and no change is accepted")
  func lostDirectory() throws {
    let bench = try AdminBench()
    let path = bench.data.path
    #expect(try bench.ask("POST", "/v1/teams", #"{"name":"One"}"#).status == 201)
    try FileManager.default.moveItem(atPath: path, toPath: path + ".away")
    func expectLoss(_ what: String) throws {
      let ready = try bench.ask("GET", "/readyz")
      #expect(ready.status == 503)
      #expect(ready.text.contains(what), "\(ready.text)")
      let change = try bench.ask("POST", "/v1/teams", #"{"name":"Two"}"#)
      #expect(change.status == 503)
      #expect(change.text.contains(what), "\(change.text)")
    }
    try expectLoss("deleted or moved")
    try FileManager.default.copyItem(atPath: path + ".away", toPath: path)
    try expectLoss("replaced")
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.moveItem(atPath: path + ".away", toPath: path)
    #expect(try bench.ask("POST", "/v1/teams", #"{"name":"Two"}"#).status == 201)
  }

  @Test("A change that cannot get the directory's lock is answered 503 with its holder")
  func busy() throws {
    let text = DirectoryBusy(description: "held by `apus rotate`, process 7")
    let bench = try AdminBench()
    let changes = AdminChanges(
      bench.api.view,
      try AdminInput(.init(method: "POST", segments: [], peer: AdminBench.owner), []))
    #expect(throws: AdminProblem(.unavailable, "\(text)")) {
      try changes.attempt { throw text }
    }
  }
}
