import Foundation
import Testing

@Suite("Accepted notifications survive a kill of the service", .serialized)
struct DurabilityTests {
  @Test(
    "A notification for an offline device is delivered after kill -9", .timeLimit(.minutes(30)),
    arguments: [1, 2])
  func killed(workers: Int) throws {
    let installation = try Installation()
    try installation.start(["--workers", "\(workers)"])
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try installation.send(1, to: token, lifetimeSeconds: 3600)
    // A newer notification that is not to be stored must not replace the first.
    try installation.send(2, to: token)
    installation.service?.stop(SIGKILL)

    try installation.start(["--workers", "\(workers)"])
    _ = try device.connect()
    #expect(try device.shown(atLeast: 1) == [1])
    // The next notification is the second to arrive: nothing came in between.
    try installation.send(3, to: token, lifetimeSeconds: 3600)
    #expect(try device.shown(atLeast: 2) == [1, 3])
  }
}
