import ApusClient
import ApusCommand
import ApusModel
import ApusWire
import Glibc

/// `apus-bench send-binary`: sends many notifications through one `BinaryClient` to a gateway or a server that only
/// reads.
final class SendBinaryCommand: Sendable {
  private let configuration: BinaryClientConfiguration
  private let requests: [PushRequest]
  private let count: Int
  private let warmUpCount: Int
  private let payloadBytes: Int
  /// The number in the first payload that is measured; nil for equal payloads.
  private let firstNumber: Int?

  init(_ invocation: Invocation) throws(CommandFailure) {
    let target = invocation.value(BenchOptions.binaryTarget)
    func pem(_ option: Option<String>) throws(CommandFailure) -> [UInt8] {
      Array(try readText(try invocation.require(option)).utf8)
    }
    var configuration = BinaryClientConfiguration(
      endpoint: Endpoint(host: target.host, port: target.port),
      trustRoots: .pem(try pem(BenchOptions.binaryAuthority)),
      credential: .certificate(
        certificatePEM: try pem(BenchOptions.binaryCertificate),
        keyPEM: try pem(BenchOptions.binaryCertificateKey)))
    configuration.serverName = "localhost"
    configuration.expectsConfirmations = invocation.isOn(BenchOptions.binaryConfirmed)
    configuration.silenceMilliseconds = invocation.value(BenchOptions.binarySilence)
    // Enough for the silence at two gigabytes per second, but not more: a larger queue uses fresh memory, which the
    // system must clear, instead of memory that is in the processor's cache.
    configuration.windowBytes = min(
      max(2_000_000 * configuration.silenceMilliseconds, 1 << 24), 1 << 30)
    // The number of notifications in that many bytes, at two hundred bytes each.
    configuration.windowCapacity = min(configuration.windowBytes / 200, 1 << 24)
    self.configuration = configuration
    payloadBytes = invocation.value(BenchOptions.binaryPayloadBytes)
    firstNumber = invocation[BenchOptions.binaryNumber]
    let payload = Self.payload(payloadBytes)
    let expiration = invocation.value(BenchOptions.expiration).seconds(now: Int64(time(nil)))
    requests = try readTokens(try invocation.require(BenchOptions.binaryTokens)).map { token in
      var request = PushRequest(token: token, topic: nil, payload: payload)
      request.expirationSeconds = expiration
      return request
    }
    count = invocation.value(BenchOptions.binaryPushes)
    warmUpCount = invocation.value(BenchOptions.binaryWarmUp)
  }

  /// `{"aps":{"alert":"xx…"}}`, or `{"aps":{"alert":"17 xx…"}}`
  fileprivate static func payload(_ byteCount: Int, number: Int? = nil) -> [UInt8] {
    let text = number.map { "\($0) " } ?? ""
    let (head, tail) = (Array((#"{"aps":{"alert":""# + text).utf8), Array(#""}}"#.utf8))
    let filler = [UInt8](repeating: 0x78, count: max(0, byteCount - head.count - tail.count))
    return head + filler + tail
  }

  func run() throws(CommandFailure) {
    print(
      try runToEnd("send-binary") { [self] () throws(CommandFailure) in try await measure() }.text)
  }

  private func measure() async throws(CommandFailure) -> JSONValue {
    let client: BinaryClient
    do throws(ClientConfigurationError) { client = try BinaryClient(configuration) } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    try await send(warmUpCount, numberedFrom: nil, client)
    let before = Usage.now
    try await send(count, numberedFrom: firstNumber, client)
    let after = Usage.now
    await client.close()
    let cpu = after.cpuMicroseconds - before.cpuMicroseconds
    return .members([
      "notifications": .integer(Int64(count)), "frame_bytes": .integer(Int64(61 + payloadBytes)),
      "microseconds": .integer(after.microseconds - before.microseconds),
      "cpu_nanoseconds_each": .integer(cpu * 1000 / Int64(max(count, 1))),
      "resident_kilobytes": .integer(after.residentKilobytes),
    ])
  }

  private func send(
    _ count: Int, numberedFrom number: Int?, _ client: BinaryClient
  ) async throws(CommandFailure) {
    guard count > 0 else { return }
    var accepted = 0
    let pushes = InTurn(
      requests: requests, count: count, number: number, payloadBytes: payloadBytes)
    for await outcome in client.send(all: pushes) {
      if case .success(.accepted) = outcome.result { accepted += 1 }
    }
    guard accepted == count else {
      throw CommandFailure(.failed, "\(accepted) of \(count) notifications were accepted")
    }
  }
}

/// An endless sequence of the pushes in turn.
private struct InTurn: Sequence, IteratorProtocol, Sendable {
  let requests: [PushRequest]
  var left: Int
  /// The number in the next payload; nil for equal payloads.
  private var number: Int?
  private let payloadBytes: Int
  private var index = 0

  init(requests: [PushRequest], count: Int, number: Int?, payloadBytes: Int) {
    self.requests = requests
    left = count
    self.number = number
    self.payloadBytes = payloadBytes
  }

  mutating func next() -> PushRequest? {
    guard left > 0 else { return nil }
    left -= 1
    index = index + 1 == requests.count ? 0 : index + 1
    guard let number else { return requests[index] }
    self.number = number + 1
    var request = requests[index]
    request.payload = SendBinaryCommand.payload(payloadBytes, number: number)
    return request
  }
}
