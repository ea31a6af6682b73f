import Foundation
import Testing

@Suite("The listeners for legacy senders", .serialized)
struct ListenerOptionsTests {
  private static let others = [
    "--http2-listen", "off", "--http2-development-listen", "off", "--courier-listen", "off",
    "--courier-development-listen", "off",
  ]

  @Test(
    "Each address is announced under its listener, whatever its modifiers", .timeLimit(.minutes(30))
  )
  func announcement() throws {
    let installation = try Installation()
    let service = try Companion(
      installation.apus,
      ["serve", "--data", installation.directory.path, "--json", "--log-level", "error"]
        + Self.others + [
          "--gateway-listen", "127.0.0.1:0+confirm,127.0.0.1:0,127.0.0.1:0+lenient+confirm",
          "--gateway-development-listen", "127.0.0.1:0+strict", "--feedback-listen", "off",
          "--feedback-development-listen", "127.0.0.1:0,127.0.0.1:0",
        ], name: "apus serve")
    defer { service.stop() }
    let ready = try service.first("ready")
    let counts = [
      "http2", "http2_development", "courier", "courier_development", "gateway",
      "gateway_development", "feedback", "feedback_development",
    ].map { (ready[$0] as? [String])?.count }
    #expect(counts == [0, 0, 0, 0, 3, 1, 0, 2])
  }

  @Test("Two listeners on one address are rejected, and the error names both options")
  func collision() throws {
    let installation = try Installation()
    let trouble = #expect(throws: Trouble.self) {
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"exec timeout 30 "$0" "$@" 2>&1"#, installation.apus.path, "serve", "--data",
          installation.directory.path, "--gateway-listen", "[::1]:9", "--feedback-listen",
          "127.0.0.1:9,[0:0::1]:9", "--gateway-development-listen", "off",
          "--feedback-development-listen", "off",
        ] + Self.others)
    }
    let text = trouble?.description ?? ""
    #expect(text.contains("ended with 2"))
    #expect(text.contains("--feedback-listen: [::1]:9 collides with [::1]:9 of --gateway-listen"))
  }
}
