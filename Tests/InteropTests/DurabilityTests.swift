import Foundation
import Testing

@Suite("What was accepted survives the death of the service", .serialized)
struct DurabilityTests {
  @Test(
    "A notification for an absent device is delivered after kill -9", .timeLimit(.minutes(2)),
    arguments: [1, 2])
  func killed(workers: Int) throws {
    let installation = try Installation()
    try installation.start(["--workers", "\(workers)"])
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try send(1, lifetimeSeconds: 3600, token, installation)
    // Newer, and not to be stored: it must not take the first one's place.
    try send(2, lifetimeSeconds: nil, token, installation)
    installation.service?.stop(SIGKILL)

    try installation.start(["--workers", "\(workers)"])
    _ = try device.connect()
    #expect(try device.shown(atLeast: 1) == [1])
    // One that comes afterwards is the second, and nothing came between.
    try send(3, lifetimeSeconds: 3600, token, installation)
    #expect(try device.shown(atLeast: 2) == [1, 3])
  }

  private func send(
    _ n: Int, lifetimeSeconds: Int?, _ token: String, _ installation: Installation
  ) throws {
    let expiration = lifetimeSeconds.map { Int(Date().timeIntervalSince1970) + $0 } ?? 0
    try Programs.run(
      installation.apus,
      [
        "send", "--to", "localhost:\(installation.providerPort)", "--data",
        installation.directory.path, "--token", token, "--expiration", "\(expiration)",
        "--payload", #"{"aps":{"alert":"Number \#(n)"},"n":\#(n)}"#, "--json",
      ])
  }
}
