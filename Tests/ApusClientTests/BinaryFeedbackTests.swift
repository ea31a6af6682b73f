import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@testable import ApusClient

@Suite("Reading the list of inactive tokens", .timeLimit(.minutes(30)))
struct BinaryFeedbackTests {
  /// Binary Provider API, Table A-3: time, length, token; here 32 bytes, and other lengths.
  private static let tuples: [UInt8] =
    [0x5f, 0x5e, 0x10, 0x00, 0x00, 0x20] + (UInt8(0)..<32).map { $0 } + [
      0x5f, 0x5e, 0x10, 0x01, 0x00, 0x02, 0xab, 0xcd,
    ]
  private static let entries = [
    FeedbackEntry(
      token: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
      timeSeconds: 1_600_000_000),
    FeedbackEntry(token: "abcd", timeSeconds: 1_600_000_001),
  ]

  private func reader(
    _ service: FeedbackScript, change: (inout FeedbackConfiguration) -> Void = { _ in }
  ) throws -> FeedbackReader {
    var configuration = FeedbackConfiguration(
      endpoint: Endpoint(host: "127.0.0.1", port: service.port),
      trustRoots: .pem(service.authorityPEM), credential: service.credential)
    change(&configuration)
    return try FeedbackReader(configuration)
  }

  @Test("A complete list is read, however its bytes are split", arguments: [1, 5, 38, 1000])
  func whole(recordBytes: Int) async throws {
    let service = try FeedbackScript(Self.tuples, recordBytes: recordBytes, .closeNotify)
    var entries: [FeedbackEntry] = []
    for try await entry in try reader(service).entries() { entries.append(entry) }
    #expect(entries == Self.entries)
    await service.awaitEnd()
    #expect(service.end == .closeNotify, "the service learns that the list has arrived")
  }

  @Test("An empty list is valid")
  func empty() async throws {
    let service = try FeedbackScript([], recordBytes: 1, .closeNotify)
    #expect(try await reader(service).read() == [])
  }

  @Test(
    "An incomplete list is reported with its entries, and the service gets a reset",
    arguments: [
      (38, FeedbackScript.End.fin, 1, FeedbackError.Code.incomplete),
      (40, .closeNotify, 1, .incomplete), (0, .fin, 0, .incomplete), (46, .fin, 2, .incomplete),
    ])
  func broken(
    byteCount: Int, end: FeedbackScript.End, count: Int, code: FeedbackError.Code
  ) async throws {
    let service = try FeedbackScript(
      Array(Self.tuples[..<byteCount]), recordBytes: 1000, end)
    let error = await #expect(throws: FeedbackError.self) { try await reader(service).read() }
    #expect(error?.code == code)
    #expect(error?.entries == Array(Self.entries[..<count]))
    await service.awaitEnd()
    #expect(service.end == .failed)
  }

  @Test("Bytes that are not a list are reported as such")
  func nonsense() async throws {
    let service = try FeedbackScript([0, 0, 0, 1, 0, 0], recordBytes: 6, .closeNotify)
    let error = await #expect(throws: FeedbackError.self) { try await reader(service).read() }
    #expect(error?.code == .notUnderstood)
  }

  @Test("Reading a silent service times out, and a cancelled reading stops")
  func silent() async throws {
    let service = try FeedbackScript(Self.tuples, recordBytes: 1000, .nothing)
    let patient = try reader(service)
    let error = await #expect(throws: FeedbackError.self) {
      try await reader(service) { $0.silenceTimeoutSeconds = 1 }.read()
    }
    #expect(error?.code == .timedOut)
    #expect(error?.entries == Self.entries)
    let task = Task { try await patient.read() }
    task.cancel()
    let cancelled = await #expect(throws: FeedbackError.self) { try await task.value }
    #expect(cancelled?.code == .cancelled)
  }

  @Test("A missing service and an unusable credential are errors")
  func misconfigured() async throws {
    let service = try FeedbackScript([], recordBytes: 1, .closeNotify)
    let reader = try reader(service) { $0.endpoint.port = 1 }
    let error = await #expect(throws: FeedbackError.self) { try await reader.read() }
    #expect(error?.code == .connectionFailed)
    #expect(throws: ClientConfigurationError.self) {
      try self.reader(service) {
        $0.credential = .providerToken(keyPEM: [], keyID: "ABCDE12345", teamID: "TEAM123456")
      }
    }
  }

  @Test("The service's own list is sent once")
  func live() async throws {
    let bench = try BinaryBench()
    let address = bench.service.address(.feedback)
    let reader = try FeedbackReader(
      FeedbackConfiguration(
        endpoint: Endpoint(host: "127.0.0.1", port: address.port), trustRoots: bench.trustRoots,
        credential: bench.credential))
    #expect(try await reader.read() == [])
    // An app gets a token and is removed; a push to that token is accepted and recorded.
    let device = try bench.service.connect()
    try device.enable(TestDirectory.topic)
    let token = try device.token()
    try device.filter([])
    try device.settle()
    let client = try BinaryClient(bench.configuration(.confirming))
    var push = bench.push(1)
    push.token = token
    var entries: [FeedbackEntry] = []
    while entries.isEmpty {
      #expect(try await client.send(push) == .accepted(apnsID: Bench.id(1), uniqueID: nil))
      entries = try await reader.read()
    }
    await client.close()
    #expect(entries.map(\.token) == [token])
  }
}
