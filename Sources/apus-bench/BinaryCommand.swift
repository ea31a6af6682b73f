import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire
import Glibc

/// `apus-bench binary`: a legacy sender that sends as fast as the connection accepts, or waits for each confirmation.
final class BinaryCommand: BinaryLinkOwner {
  private let total: Int
  private let recordBytes: Int
  private let waitsForEach: Bool
  private let halfCloses: Bool
  private let loop = EventLoop(name: "binary")
  private let memory = BinaryLinkMemory()
  private let endpoint: BinaryEndpoint
  private let source: SocketAddress?
  private var frames: BinaryFrames
  private var cipher = ""
  private var sent = 0
  private var sentBytes = 0
  private var confirmed = 0
  private var latencies: [Duration] = []
  private var begin = ContinuousClock.now
  private var beganMilliseconds: Int64 = 0
  private var sentLast = ContinuousClock.now
  private var end = ContinuousClock.now
  private var isComplete = false
  private var failure: CommandFailure?

  init(_ invocation: Invocation) throws(CommandFailure) {
    total = try invocation.require(BenchOptions.frames)
    waitsForEach = invocation.isOn(BenchOptions.oneAtATime)
    halfCloses = invocation.isOn(BenchOptions.halfClose)
    let frameBytes = invocation.value(BenchOptions.frameBytes)
    recordBytes =
      invocation.value(BenchOptions.records) == .full ? TLSBuffers.recordBytes : frameBytes
    endpoint = try BinaryEndpoint(invocation)
    source = try invocation.sources().first
    let expiration = invocation.value(BenchOptions.expiration).seconds(now: Int64(time(nil)))
    frames = BinaryFrames(
      tokens: try Self.tokens(invocation, total), expiration: UInt32(clamping: expiration),
      frameBytes: frameBytes, areUnlike: invocation.isOn(BenchOptions.unlike))
    if waitsForEach { latencies.reserveCapacity(total) }
  }

  /// The tokens of a file, or of registered devices.
  private static func tokens(
    _ invocation: Invocation, _ total: Int
  ) throws(CommandFailure) -> [DeviceToken] {
    guard let count = invocation[BenchOptions.registered] else {
      return try readTokens(try invocation.require(BenchOptions.tokens))
    }
    let first = invocation.value(BenchOptions.first)
    let issue = try RegisteredDevices(data: invocation.value(BenchOptions.data))
    return (0..<min(count, total)).map { issue.token((first + $0) % count) }
  }

  func run() throws(CommandFailure) {
    let link: BinaryLink
    do {
      link = try BinaryLink(
        to: endpoint, source: source, loop: loop, memory: memory, owner: self)
    } catch {
      throw error as? CommandFailure ?? CommandFailure(.unavailable, "\(error)")
    }
    withExtendedLifetime(link) { loop.run() }
    print(summary.text)
    if let failure { throw failure }
  }

  // MARK: Sending

  func linkOpened(_ link: BinaryLink) {
    cipher = link.cipher
    begin = .now
    beganMilliseconds = EventLoop.wallClockMilliseconds()
    if waitsForEach { sendBatch(link, 1) } else { link.isProducing = true }
  }

  func linkTakesMore(_ link: BinaryLink) {
    if sent < total { return sendBatch(link, min(total - sent, BinaryFrames.perBatch)) }
    link.isProducing = false
    sendLast(link)
  }

  private func sendBatch(_ link: BinaryLink, _ count: Int) {
    let byteCount = frames.prepare(count)
    sent += count
    sentBytes += byteCount
    sentLast = .now
    let batch = frames.bytes
    link.write(batch.span.extracting(..<byteCount), recordBytes: recordBytes)
  }

  private func sendLast(_ link: BinaryLink) {
    link.write(
      BinaryFrames.knownBad(identifier: frames.nextIdentifier).span, recordBytes: recordBytes)
    if halfCloses { link.shut() }
  }

  // MARK: Responses of the service

  func link(_ link: BinaryLink, received packet: BinaryPacket) {
    switch BinaryStatus(rawValue: packet.status) {
    case .noError:
      confirmed += 1
      guard waitsForEach else { return }
      latencies.append(sentLast.duration(to: .now))
      if sent < total { sendBatch(link, 1) } else { sendLast(link) }
    case .missingDeviceToken where packet.identifier == frames.nextIdentifier && sent == total:
      end = .now
      isComplete = true
    default:
      failure = CommandFailure(
        .failed,
        "the service responded with status \(packet.status) for notification \(packet.identifier)")
    }
  }

  func linkEnded(_ link: BinaryLink, _ reason: String?) {
    if halfCloses, reason == nil, sent == total {
      end = .now
      isComplete = true
    }
    if !isComplete, failure == nil {
      failure = CommandFailure(
        .failed, reason ?? "the service ended the connection after \(sent) of \(total) frames")
    }
    loop.stop()
  }

  private var summary: JSONValue {
    .members([
      "frames": .integer(Int64(sent)), "bytes": .integer(Int64(sentBytes)),
      "seconds": .number((end - begin) / .seconds(1)), "confirmed": .integer(Int64(confirmed)),
      "began_milliseconds": .integer(beganMilliseconds), "cipher": .string(cipher),
      "microseconds": waitsForEach ? .array(latencies.map { .number($0 / .microseconds(1)) }) : nil,
    ])
  }
}

/// The tokens of a file that `apus-bench fleet` wrote.
func readTokens(_ path: String) throws(CommandFailure) -> [DeviceToken] {
  var tokens: [DeviceToken] = []
  for line in try readText(path).split(separator: "\n") {
    guard let token = DeviceToken(hex: Array(line.utf8).span) else {
      throw CommandFailure(.configuration, "\(path) has a line that is not a token: \(line)")
    }
    tokens.append(token)
  }
  guard !tokens.isEmpty else { throw CommandFailure(.configuration, "\(path) has no tokens") }
  return tokens
}
