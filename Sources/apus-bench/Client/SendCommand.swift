import ApusClient
import ApusCommand
import ApusModel
import ApusTrust
import ApusWire
import Glibc
import Synchronization

/// `apus-bench send`: sends many notifications through one `APNSClient`.
final class SendCommand: Sendable {
  private let configuration: ClientConfiguration
  private let request: PushRequest
  private let form: SendForm
  private let count: Int
  private let warmUpCount: Int
  private let taskCount: Int
  private let capacity: Int
  /// Number of single sends started.
  private let begun = Atomic<Int>(0)

  init(_ invocation: Invocation) throws(CommandFailure) {
    let target = invocation.value(BenchOptions.http2)
    let key: PrivateKey
    do throws(TrustFault) { key = try PrivateKey.generateP256() } catch {
      throw CommandFailure(.failed, "\(error)")
    }
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: target.host, port: target.port),
      trustRoots: .pem(Array(try readText(invocation.require(BenchOptions.sinkAuthority)).utf8)),
      credential: .providerToken(
        keyPEM: Array(key.pkcs8PEM.utf8), keyID: "BENCHBENCH", teamID: "TEAM123456"))
    configuration.maximumConnections = invocation.value(BenchOptions.connections)
    configuration.serverName = "localhost"
    self.configuration = configuration
    var request = PushRequest(
      token: try invocation.require(BenchOptions.token), topic: "com.example.app",
      payload: Array(try readText(invocation.require(BenchOptions.payload)).utf8))
    request.priority = .immediate
    request.expirationSeconds = 0
    self.request = request
    form = invocation.value(BenchOptions.form)
    count = invocation.value(BenchOptions.pushes)
    warmUpCount = invocation.value(BenchOptions.warmUp)
    taskCount = invocation.value(BenchOptions.tasks)
    capacity = invocation.value(BenchOptions.capacity)
  }

  func run() throws(CommandFailure) {
    print(try runToEnd("send") { [self] () throws(CommandFailure) in try await measure() }.text)
  }

  private func measure() async throws(CommandFailure) -> JSONValue {
    let client: APNSClient
    do throws(ClientConfigurationError) { client = try APNSClient(configuration) } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    try await send(warmUpCount, client)
    let before = Usage.now
    try await send(count, client)
    let after = Usage.now
    await client.close()
    let cpu = after.cpuMicroseconds - before.cpuMicroseconds
    return .members([
      "notifications": .integer(Int64(count)),
      "microseconds": .integer(after.microseconds - before.microseconds),
      "cpu_nanoseconds_each": .integer(cpu * 1000 / Int64(max(count, 1))),
      "resident_kilobytes_before": .integer(before.residentKilobytes),
      "resident_kilobytes": .integer(after.residentKilobytes),
    ])
  }

  private func send(_ count: Int, _ client: APNSClient) async throws(CommandFailure) {
    guard count > 0 else { return }
    let accepted =
      switch form {
      case .bulk: await sendAll(count, client)
      case .single: await sendEach(count, client)
      }
    guard accepted == count else {
      throw CommandFailure(.failed, "\(accepted) of \(count) notifications were accepted")
    }
  }

  private func sendAll(_ count: Int, _ client: APNSClient) async -> Int {
    var accepted = 0
    let pushes = Repeated(request: request, count: count)
    for await outcome in client.send(all: pushes, capacity: capacity) {
      if case .success(.accepted) = outcome.result { accepted += 1 }
    }
    return accepted
  }

  private func sendEach(_ count: Int, _ client: APNSClient) async -> Int {
    begun.store(0, ordering: .relaxed)
    return await withTaskGroup(of: Int.self) { group in
      for _ in 0..<taskCount {
        group.addTask { [self] in
          var accepted = 0
          while begun.add(1, ordering: .relaxed).newValue <= count {
            if case .accepted? = try? await client.send(request) { accepted += 1 }
          }
          return accepted
        }
      }
      return await group.reduce(0, +)
    }
  }
}

/// Repeats the same push.
private struct Repeated: AsyncSequence, Sendable {
  typealias Failure = Never

  let request: PushRequest
  let count: Int

  struct Iterator: AsyncIteratorProtocol {
    let request: PushRequest
    var left: Int

    mutating func next() async -> PushRequest? {
      guard left > 0 else { return nil }
      left -= 1
      return request
    }

    mutating func next(isolation actor: isolated (any Actor)?) async -> PushRequest? {
      guard left > 0 else { return nil }
      left -= 1
      return request
    }
  }

  func makeAsyncIterator() -> Iterator { Iterator(request: request, left: count) }
}

/// Resources used by the process so far.
struct Usage {
  var microseconds: Int64
  var cpuMicroseconds: Int64
  /// Peak resident memory.
  var residentKilobytes: Int64

  static var now: Usage {
    var usage = rusage()
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    var clock = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &clock)
    func microseconds(_ time: timeval) -> Int64 {
      Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_usec)
    }
    return Usage(
      microseconds: Int64(clock.tv_sec) * 1_000_000 + Int64(clock.tv_nsec) / 1000,
      cpuMicroseconds: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
      residentKilobytes: Int64(usage.ru_maxrss))
  }
}
