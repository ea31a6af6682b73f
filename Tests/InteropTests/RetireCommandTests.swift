import Foundation
import Testing

@Suite("apus device retire", .serialized)
struct RetireCommandTests {
  private static let device = "0123456789abcdef"

  private func retire(_ device: String, _ extra: [String] = [], in installation: Installation)
    throws -> String
  {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"exec timeout 30 "$0" "$@" 2>&1"#, installation.apus.path, "device", "retire",
        "--data", installation.directory.path, device,
      ] + extra)
  }

  @Test("It adds an entry to directory.conf, and leaves the rest unchanged")
  func entry() throws {
    let installation = try Installation()
    let file = installation.directory.appending(path: "directory.conf")
    let before = try String(contentsOf: file, encoding: .utf8) + "\n# ours, without a line's end"
    try before.write(to: file, atomically: true, encoding: .utf8)
    let start = Int(Date().timeIntervalSince1970)
    let made = try Programs.json(retire(Self.device, ["--json"], in: installation))
    #expect(made["device_id"] as? String == Self.device)
    let since = try #require(made["retired_since"] as? Int)
    #expect((start...Int(Date().timeIntervalSince1970)).contains(since))
    let after = try String(contentsOf: file, encoding: .utf8)
    #expect(after == before + "\n\n[retired \(Self.device)]\nsince = \(since)\n")
    let said = try retire("fedcba9876543210", in: installation)
    #expect(said.contains("fedcba9876543210") && said.contains("within a second"))
  }

  @Test("A second time, or with an invalid id, it changes nothing and fails with a reason")
  func mistakes() throws {
    let installation = try Installation()
    _ = try retire(Self.device, in: installation)
    let file = installation.directory.appending(path: "directory.conf")
    let before = try Data(contentsOf: file)
    for (id, extra, code, words) in [
      (Self.device, [], 4, "is already retired"),
      (Self.device.uppercased(), [], 4, "is already retired"),
      ("0123", [], 4, "no device has the id or the name"),
      ("+123456789abcdef", [], 4, "16 hexadecimal digits"),
      ("fedcba9876543210", ["--name", "phone"], 2, "has no effect with retire"),
      ("fedcba9876543210", ["--rsa", "2048"], 2, "has no effect with retire"),
    ] {
      let trouble = #expect(throws: Trouble.self) { try retire(id, extra, in: installation) }
      #expect(trouble?.description.contains("ended with \(code)") == true, "\(id) \(extra)")
      #expect(trouble?.description.contains(words) == true, "\(id) \(extra)")
    }
    #expect(try Data(contentsOf: file) == before)
  }
}
