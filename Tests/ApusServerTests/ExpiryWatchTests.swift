import ApusModel
import ApusTesting
import ApusTrust
import Synchronization
import Testing

@testable import ApusLog
@testable import ApusDirectory
@testable import ApusServer

@Suite("Expiring certificates")
struct ExpiryWatchTests {
  private static let day: Int64 = 86_400
  private static let end: Int64 = 1_900_000_000

  /// Collects the days left from each log line.
  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    func append(_ line: String) { lines.withLock { $0.append(line) } }
    func take() -> [String] {
      lines.withLock { lines in
        defer { lines = [] }
        return lines
      }
    }
  }

  private let lines = Lines()
  private let watch: ExpiryWatch
  private let entry = ExpiryWatch.Entry(kind: .provider, name: "com.example.app", notAfter: end)

  init() {
    let lines = lines
    watch = ExpiryWatch(log: Log(sink: { lines.append($0) }))
  }

  private func look(_ daysLeft: Double) {
    watch.look(at: entry, nowSeconds: Self.end - Int64(daysLeft * Double(Self.day)))
  }

  @Test("Warnings are logged at 30, 7 and 1 days and at expiry, once each")
  func marks() {
    look(31)
    #expect(lines.take().isEmpty && watch.entries().isEmpty)
    for daysLeft in [30, 29.5, 12, 7.1] { look(daysLeft) }
    let first = lines.take()
    #expect(first.count == 1 && first[0].contains("days_left=30"))
    for daysLeft in [7, 3, 1.5] { look(daysLeft) }
    #expect(lines.take().map { $0.contains("days_left=7") } == [true])
    for daysLeft in [1, 0.5] { look(daysLeft) }
    #expect(lines.take().map { $0.contains("days_left=1") } == [true])
    look(-0.1)
    #expect(lines.take().map { $0.contains("has expired") } == [true])
    #expect(watch.entries() == [entry])
  }

  @Test("A certificate seen late gets one warning, for the nearest threshold")
  func late() {
    look(0.9)
    look(0.8)
    #expect(lines.take().count == 1)
  }

  @Test("A certificate is logged at most once a day")
  func news() {
    let (one, other): ([UInt8], [UInt8]) = ([1, 2, 3], [1, 2, 4])
    #expect(watch.isNews(one, nowSeconds: 86_400))
    #expect(!watch.isNews(one, nowSeconds: 2 * 86_400 - 1))
    #expect(watch.isNews(other, nowSeconds: 2 * 86_400 - 1))
    #expect(watch.isNews(one, nowSeconds: 2 * 86_400))
  }

  @Test("A bounded number of certificates is remembered, and expired ones are dropped")
  func bounded() {
    for index in 0..<ExpiryWatch.capacity + 10 {
      watch.look(
        at: .init(kind: .device, name: "\(index)", notAfter: Self.end),
        nowSeconds: Self.end - Self.day)
    }
    #expect(watch.entries().count == ExpiryWatch.capacity)
    let later = Self.end + 10 * Self.day
    watch.look(at: .init(kind: .device, name: "new", notAfter: later), nowSeconds: later - 1)
    #expect(watch.entries().map(\.name) == ["new"])
  }

  private func entry(
    _ kind: ExpiryWatch.Kind, _ name: String, daysLeft: Int64
  ) -> ExpiryWatch.Entry {
    .init(kind: kind, name: name, notAfter: Self.end + daysLeft * Self.day)
  }

  @Test("A certificate that expired more than a day ago is forgotten, except the service's own")
  func expired() {
    let own = entry(.server, "localhost", daysLeft: 1)
    for entry in [own, entry(.provider, "a", daysLeft: 1), entry(.device, "b", daysLeft: 1)] {
      watch.look(at: entry, nowSeconds: Self.end)
    }
    watch.tidy(own: [own], nowSeconds: Self.end + 2 * Self.day - 1)
    #expect(watch.entries().count == 3 && watch.known().count == 3)
    _ = lines.take()
    watch.tidy(own: [own], nowSeconds: Self.end + 2 * Self.day)
    #expect(watch.entries() == [own] && watch.known() == [own])
    watch.look(at: own, nowSeconds: Self.end + 2 * Self.day)
    watch.look(at: own, nowSeconds: Self.end + 3 * Self.day)
    #expect(lines.take().count == 1, "said once more that it has expired")
  }

  @Test("A device's certificate is forgotten when the device presents its next one")
  func renewed() throws {
    let device = try #require(DeviceID(text: "0123456789abcdef"))
    let old = entry(.device, device.text, daysLeft: 1)
    let other = entry(.device, "fedcba9876543210", daysLeft: 1)
    for entry in [old, other] { watch.look(at: entry, nowSeconds: Self.end) }
    watch.deviceAccepted(device, notAfter: old.notAfter)
    #expect(Set(watch.entries()) == [old, other], "the same one")
    let next = entry(.device, device.text, daysLeft: 29)
    watch.look(at: next, nowSeconds: Self.end)
    #expect(Set(watch.known()) == [next, other], "one that expires soon as well")
    watch.deviceAccepted(device, notAfter: next.notAfter + 1)
    #expect(watch.known() == [other])
  }

  @Test("Of a provider the certificate counts that it presented last")
  func replaced() {
    let old = entry(.provider, "a", daysLeft: 1)
    watch.look(at: old, nowSeconds: Self.end)
    watch.look(at: entry(.provider, "a", daysLeft: 365), nowSeconds: Self.end)
    #expect(watch.entries().isEmpty)
    #expect(watch.known() == [entry(.provider, "a", daysLeft: 365)])
  }

  @Test("A renewed certificate of a connected device takes the place of the old one in the metrics")
  func renewedLive() throws {
    let bench = try MonitoredService()
    defer { bench.service.stop() }
    let directory = bench.service.directory
    // A day's certificate, and then one that ends in two years.
    let old = try directory.device()
    _ = try bench.service.connect(old)
    let sample = #"apus_certificate_expiry_seconds{kind="device",name="\#(old.id.text)"}"#
    #expect(try bench.metrics()[sample] == "\(old.certificate.notAfter)")
    let key = try PrivateKey.generateP256()
    let new = try directory.deviceAuthority.issueDevice(
      deviceID: old.id, name: "test device", publicKey: key.publicKey,
      validity: Validity(now: TestDirectory.nowSeconds, days: 730))
    _ = try bench.service.connect(TestDevice(id: old.id, key: key, certificate: new))
    #expect(try bench.metrics()[sample] == nil)
  }

  @Test(
    "Certificates of connections are watched; a replaced service certificate is not"
  )
  func live() throws {
    let service = try TestService()
    defer { service.stop() }
    // The test's certificates last a day; the service's own do not expire soon.
    let device = try service.connect()
    let provider = try service.provider(identity: service.directory.providerIdentity())
    try provider.ping()
    let found = service.service.expiringCertificates()
    #expect(
      Set(found.map(\.name)) == [TestDirectory.topic, device.device.id.text])
    #expect(Set(found.map(\.kind)) == [.provider, .device])
    #expect(try service.directory.data.namedCertificates().map(\.kind).count == 4)
  }
}
