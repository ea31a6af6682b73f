import ApusCore
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTesting
import ApusTrust
import Glibc
import Testing

@testable import ApusDirectory
@testable import ApusEnrolment
@testable import ApusServer

/// Connections that are bytes in this process, and a clock that stands still until a test moves it.
final class SteppedNetwork: SimulatedSystem {
  struct Line {
    var toService: [UInt8] = []
    var fromService: [UInt8] = []
    /// Bytes that the buffers between take until the peer reads.
    var roomBytes = Int.max
    var isClosed = false
  }

  var lines: [Int32: Line] = [:]
  /// Unix seconds at the start.
  let startSeconds = TestDirectory.nowSeconds
  /// Milliseconds since the start, which is a full second of the service's clock.
  var nowMilliseconds: UInt64 = 0

  var monotonicMilliseconds: UInt64 { 1_000_000 + nowMilliseconds }
  var turnAgeMilliseconds: UInt64 { 0 }
  var wallClockMilliseconds: Int64 { startSeconds * 1000 + Int64(nowMilliseconds) }

  func wake(_ loop: EventLoop) {}
  func adopted(_ descriptor: Int32, by loop: EventLoop) {}

  func isReadable(_ descriptor: Int32) -> Bool { lines[descriptor]?.toService.isEmpty == false }
  func isWritable(_ descriptor: Int32) -> Bool { (lines[descriptor]?.roomBytes ?? 0) > 0 }

  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    guard let bytes = lines[descriptor]?.toService else { return .failed(EBADF) }
    guard !bytes.isEmpty else { return .wouldBlock }
    let count = min(bytes.count, buffer.count)
    buffer.copyBytes(from: bytes[..<count])
    lines[descriptor]?.toService.removeFirst(count)
    return .bytes(count)
  }

  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult {
    guard let line = lines[descriptor], !line.isClosed else { return .failed(EBADF) }
    guard line.roomBytes > 0 else { return .wouldBlock }
    let count = min(bytes.count, line.roomBytes)
    lines[descriptor]?.fromService += bytes[..<count]
    lines[descriptor]?.roomBytes -= count
    return .bytes(count)
  }

  func shutdownWrite(_ descriptor: Int32) {}
  func close(_ descriptor: Int32, resets: Bool) { lines[descriptor]?.isClosed = true }
  func unacknowledgedByteCount(_ descriptor: Int32) -> Int? { 0 }
}

/// A worker with one listener, stepped by a test.
final class SteppedBench {
  let directory: TestDirectory
  let network = SteppedNetwork()
  let loop: EventLoop
  let worker: Worker
  private let listener: ServiceListener
  private var lastDescriptor: Int32 = 1_000_000

  init(
    _ kind: ListenerKind, _ directory: TestDirectory? = nil, store: MemoryStore = MemoryStore(),
    enrolment: EnrolmentQueue? = nil, proxies: [AddressRange]? = nil, capacity: Int = .max
  ) throws {
    let directory = try directory ?? TestDirectory()
    self.directory = directory
    var configuration = ServerConfiguration(dataDirectory: directory.data.path, listeners: [])
    configuration.isEphemeral = true
    let audit = AuditLog(path: nil)
    let order = try AcceptanceOrder(store: store) { _ in }
    var shared = SharedState(
      configuration: configuration, store: store, order: order,
      channels: try ChannelRegister(store, order: order, log: configuration.log, nowSeconds: 0),
      resends: try ResendRegister(store),
      audit: audit,
      expiries: ExpiryWatch(log: configuration.log))
    shared.gate = ConnectionGate(capacity: capacity)
    shared.enrolment = enrolment
    let trust = try directory.data.trust(generation: 1, allowsES512: false)
    loop = EventLoop(name: "stepped", simulated: network)
    worker = Worker(index: 0, of: 1, shared: shared, trust: trust, loop: loop)
    worker.connect(to: [worker])
    try worker.devices.restore(LedgerOpening(store, workers: 1, journals: LedgerJournals()))
    let contexts = ListenerContexts(
      directory: directory.data, configuration: configuration,
      revocations: Revocations(trust.directory), ticketKeys: TicketKeys(),
      certificates: try ServerCertificates([], log: configuration.log))
    let authorities = trust.authorities(of: kind)
    listener = ServiceListener(
      kind: kind, environment: .production,
      context: try contexts.context(
        for: ListenerConfiguration(kind: kind, environment: .production, addresses: []),
        trusting: authorities),
      authorities: authorities, addresses: [], rules: .standard, proxies: proxies)
  }

  deinit { worker.dismantle() }

  /// Takes turns until the loop would sleep.
  func run() {
    var turns = 0
    while loop.takeTurn() {
      turns += 1
      precondition(turns < 1_000_000, "the loop never sleeps")
    }
  }

  /// Moves the clock to `milliseconds` since the start, by way of each full second, so that timers fire when they are
  /// due.
  func advance(toMilliseconds milliseconds: UInt64) {
    var next = (network.nowMilliseconds / 1000 + 1) * 1000
    while next < milliseconds {
      network.nowMilliseconds = next
      run()
      next += 1000
    }
    network.nowMilliseconds = milliseconds
    run()
  }

  /// A peer that has connected, and sent nothing.
  func connect(from peer: SocketAddress = .loopbackIPv4(port: 1)) -> Int32 {
    lastDescriptor += 1
    network.lines[lastDescriptor] = SteppedNetwork.Line()
    worker.connections.accept(lastDescriptor, peer, listener)
    run()
    return lastDescriptor
  }

  func send(_ bytes: [UInt8], on descriptor: Int32) {
    network.lines[descriptor]?.toService += bytes
    loop.look(at: descriptor)
    run()
  }

  func isClosed(_ descriptor: Int32) -> Bool { network.lines[descriptor]?.isClosed == true }

  /// Whether the service has sent anything on it.
  func isAnswered(_ descriptor: Int32) -> Bool {
    network.lines[descriptor]?.fromService.isEmpty == false
  }

  /// The peer reads so many bytes, and nothing more; 0 for a peer that has stopped.
  func setRoom(_ bytes: Int, _ descriptor: Int32) {
    network.lines[descriptor]?.roomBytes = bytes
    loop.look(at: descriptor)
    run()
  }

  /// The first flight of a client; the service answers it every time that it arrives.
  func clientHello() throws -> [UInt8] {
    let tls = try TLSConnection(context: context(protocols: ["h2"], nil))
    let buffers = TLSBuffers()
    tls.startHandshake(buffers: buffers)
    return Array(buffers.output)
  }

  fileprivate func context(protocols: [String], _ identity: TLSIdentity?) throws -> TLSContext {
    try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: Array(directory.serviceAuthority.certificate.pem.utf8)),
        identity: identity, applicationProtocols: protocols, serverName: "localhost"))
  }
}

/// A client whose handshake with a stepped worker is complete.
final class SteppedClient {
  let descriptor: Int32
  private let bench: SteppedBench
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private(set) var plaintext: [UInt8] = []
  /// Whether the service has said that nothing more comes.
  private(set) var isEnded = false

  /// - Parameter readsNothing: Whether the connection takes nothing more of the service than its handshake.
  init(
    _ bench: SteppedBench, protocols: [String] = [], identity: TLSIdentity? = nil,
    readsNothing: Bool = false
  ) throws {
    self.bench = bench
    descriptor = bench.connect()
    tls = try TLSConnection(context: bench.context(protocols: protocols, identity))
    tls.startHandshake(buffers: buffers)
    sendOutput()
    try receive()
    try #require(tls.isEstablished)
    if readsNothing { bench.setRoom(0, descriptor) }
    sendOutput()
    try receive()
  }

  private func sendOutput() {
    let output = Array(buffers.output)
    buffers.removeAllOutput()
    if !output.isEmpty { bench.send(output, on: descriptor) }
  }

  func send(_ bytes: [UInt8]) throws {
    try bytes.withUnsafeBytes { try tls.write($0, buffers: buffers) }
    sendOutput()
  }

  /// Takes what the service has sent.
  func receive() throws {
    let bytes = bench.network.lines[descriptor]?.fromService ?? []
    bench.network.lines[descriptor]?.fromService = []
    try bytes.withUnsafeBytes { input in
      tls.provide(input, buffers: buffers)
      while true {
        switch tls.read(buffers: buffers) {
        case .handshakeCompleted: continue
        case .plaintext(let part): plaintext += Array(part)
        case .needsInput: return
        case .closedByPeer:
          isEnded = true
          return
        case .failed(let error): throw error
        }
      }
    }
  }
}
