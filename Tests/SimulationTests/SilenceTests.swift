import ApusTesting
import Testing

/// "After 60 s with un-acked frames and no other traffic, close": on the clock of a simulated world.
@Suite("A device that does not acknowledge")
struct SilenceTests {
  @Test(
    "Its connection ends 60 s after a notification, however long it was quiet before",
    arguments: [5, 59, 61, 600, 1700])
  func silent(quietSeconds: Int) throws {
    let device = try SilentDevice(keepAliveSeconds: 100_000)
    let report = try device.run(quietSeconds: quietSeconds, seconds: 100)
    #expect(report.arrivedCount == 1)
    // The service's clock counts in seconds, and a packet may take some.
    let seconds = try #require(report.secondsToEnd)
    #expect((58...64).contains(seconds), "\(seconds)")
  }

  @Test("It goes on for as long as anything else is heard of it")
  func alive() throws {
    let device = try SilentDevice(keepAliveSeconds: 45)
    let report = try device.run(quietSeconds: 100, seconds: 1000)
    #expect(report.arrivedCount == 1)
    #expect(report.secondsToEnd == nil)
  }
}
