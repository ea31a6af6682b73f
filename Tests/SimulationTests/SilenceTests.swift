import ApusTesting
import Testing

/// A connection with unacknowledged frames and no other traffic ends after 60 s; here on a simulated clock.
@Suite("A device that does not acknowledge")
struct SilenceTests {
  @Test(
    "The connection ends 60 s after a notification, however long it was idle before",
    arguments: [5, 59, 61, 600, 1700])
  func silent(quietSeconds: Int) throws {
    let device = try SilentDevice(keepAliveSeconds: 100_000)
    let report = try device.run(quietSeconds: quietSeconds, seconds: 100)
    #expect(report.arrivedCount == 1)
    // The service's clock counts in seconds, and a packet takes some time.
    let seconds = try #require(report.secondsToEnd)
    #expect((58...64).contains(seconds), "\(seconds)")
  }

  @Test(
    "A device is dormant after ten seconds of silence, and disconnected after half an hour"
  )
  func idle() throws {
    for (seconds, dormant) in [(8, 0), (30, 1), (1700, 1)] as [(Int, UInt64)] {
      let device = try SilentDevice(keepAliveSeconds: 100_000)
      let report = try device.run(quietSeconds: seconds, seconds: 0, pushes: false)
      #expect(report.dormant == dormant && report.woken == 0, "\(seconds) s")
      #expect(report.connectedSeconds == nil)
    }
    let device = try SilentDevice(keepAliveSeconds: 100_000)
    let report = try device.run(quietSeconds: 2000, seconds: 0, pushes: false)
    #expect(report.dormant == 1 && report.woken == 1)
    let seconds = try #require(report.connectedSeconds)
    #expect((1800...1804).contains(seconds), "\(seconds)")
  }

  @Test("Keep-alives wake the device, and it may be silent for as long as it announced")
  func keepAlives() throws {
    let device = try SilentDevice(keepAliveSeconds: 1500)
    let report = try device.run(quietSeconds: 20_000, seconds: 10)
    #expect(report.connectedSeconds == nil)
    #expect(report.arrivedCount == 1)
    // Thirteen keep-alives, and the notification.
    #expect(report.dormant == 14 && report.woken == 14)
  }

  @Test("The connection stays open as long as the device sends anything else")
  func alive() throws {
    let device = try SilentDevice(keepAliveSeconds: 45)
    let report = try device.run(quietSeconds: 100, seconds: 1000)
    #expect(report.arrivedCount == 1)
    #expect(report.secondsToEnd == nil)
  }
}

/// A binary connection is read again at the latest when a device has acknowledged nothing for 60 s.
@Suite("A device that is stuck")
struct StuckDeviceTests {
  private static let count = 2_000
  private static let tomorrow = UInt32(1_800_086_400)

  @Test(
    "A burst arrives once and in order when the device acknowledges after 50 s",
    arguments: [0, tomorrow])
  func resumes(expiration: UInt32) throws {
    let report = try StuckDevice().run(
      count: Self.count, expiration: expiration, silentSeconds: 50, seconds: 100)
    #expect(report.arrived == Array(1...Self.count))
    let seconds = try #require(report.secondsToNeighbour)
    #expect((50...60).contains(seconds), "\(seconds)")
    #expect(report.isProviderConnected && report.packets.isEmpty)
  }

  @Test("Another device's notification on the same connection waits for 60 s at most")
  func neighbour() throws {
    let report = try StuckDevice().run(
      count: 2 * Self.count, expiration: Self.tomorrow, silentSeconds: 150, seconds: 200)
    // The service's clock counts in seconds, and packets take some time.
    let seconds = try #require(report.secondsToNeighbour)
    #expect((58...64).contains(seconds), "\(seconds)")
    #expect(report.isProviderConnected && report.packets.isEmpty)
    // All that was accepted within the minute arrives, and of the rest what fitted, and the newest from the store.
    #expect(report.arrived.starts(with: 1...100))
    #expect(zip(report.arrived, report.arrived.dropFirst()).allSatisfy(<))
    #expect(report.arrived.last == 2 * Self.count)
  }
}

@Suite("A client without credentials")
struct UntrustedProviderTests {
  @Test(
    "The connection ends with GOAWAY after 60 seconds, whether the client is idle or not",
    arguments: [nil, 7] as [Int?])
  func ends(pingSeconds: Int?) throws {
    let provider = try UntrustedProvider(pingSeconds: pingSeconds)
    let report = try provider.run(seconds: 100)
    let seconds = try #require(report.connectedSeconds)
    // The service's clock counts in seconds, and packets take some time.
    #expect((58...64).contains(seconds), "\(seconds)")
    // RFC 9113, section 6.8: type 7 on stream 0, last stream 0, NO_ERROR; then the reason.
    let goAway: [UInt8] = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    let reason = Array(#"{"reason":"IdleTimeout"}"#.utf8)
    #expect(report.received.suffix(goAway.count + reason.count) == goAway[...] + reason)
    #expect(report.countedEnds == 1)
  }

  @Test("The connection does not end earlier")
  func stays() throws {
    let report = try UntrustedProvider(pingSeconds: 7).run(seconds: 55)
    #expect(report.connectedSeconds == nil)
    #expect(report.countedEnds == 0)
  }
}
