import ApusAdmin
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusThread
import ApusTLS
import ApusTrust

/// What all parts of a worker use: its loop, its clocks, the trust by which it judges peers, the store, and memory that
/// is lent to one connection at a time.
///
/// Only the worker's thread uses it.
@safe final class WorkerContext: @unchecked Sendable {
  let index: Int
  /// The number of workers, not counting acceptors.
  let workerCount: Int
  /// The index of the worker that continues with trusted providers; its own unless this is an acceptor's context.
  let servingIndex: Int
  let loop: EventLoop
  let shared: SharedState
  private let decidesAboutAll: Bool
  let configuration: ServerConfiguration
  let log: Log
  let store: any DurableStore
  let ids: RandomIDs
  private(set) var trust: Trust
  private(set) var sealer: TokenSealer
  /// Counts the changes of the devices' authorities.
  private(set) var authorityGeneration: UInt32 = 0
  var shutdown = WorkerShutdown()
  var latencies = Latencies()
  var lostLedgerLineCount: UInt64 = 0
  var ended = EndedConnections()

  let tlsBuffers = TLSBuffers()
  let receiveBuffer: UnsafeMutableRawBufferPointer
  /// Memory for one TLS record of output.
  var scratch: [UInt8] = []
  /// Memory for a device's frames.
  var frameScratch: [UInt8] = []

  /// Unix milliseconds of the service's clock, which a test may set.
  private(set) var wallMilliseconds: Int64
  /// Set by a test; nil in a normal service.
  private let clock: ServiceClock?

  private static let receiveBytes = 65_536

  init(
    index: Int, workerCount: Int, servingIndex: Int, loop: EventLoop, shared: SharedState,
    trust: Trust, ids: RandomIDs
  ) {
    self.index = index
    self.workerCount = workerCount
    self.servingIndex = servingIndex
    self.loop = loop
    self.shared = shared
    decidesAboutAll = shared.configuration.share == .all
    configuration = shared.configuration
    log = configuration.log
    store = shared.store
    self.ids = ids
    self.trust = trust
    sealer = TokenSealer(trust.sealingKeys)
    clock = configuration.interceptor?.clock
    wallMilliseconds = loop.wallMilliseconds
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
  }

  deinit { unsafe receiveBuffer.deallocate() }

  var isAcceptor: Bool { servingIndex != index }

  // MARK: Clocks

  /// Seconds of the loop's clock, which cannot be set.
  var nowSeconds: UInt64 { loop.nowMilliseconds / 1000 }
  var wallSeconds: Int64 { wallMilliseconds / 1000 }

  func readClock() {
    wallMilliseconds = loop.wallMilliseconds
    if let clock { wallMilliseconds &+= clock.offsetMilliseconds }
  }

  /// Whether another process may have taken the store over, with the devices.
  var isLeaseLapsed: Bool {
    guard let lease = shared.store.lease else { return false }
    return lease.hasLapsed(
      atMilliseconds: loop.isSimulated ? loop.nowMilliseconds : bootMilliseconds())
  }

  /// The time for judging certificates, in Unix seconds. Handshakes use it too. The development service's clock does
  /// not affect it.
  var certificateSeconds: Int64 { loop.wallMilliseconds / 1000 }

  /// The second of the loop's clock just after `wallSeconds` (Unix seconds), provided that no clock is set.
  func secondAfter(_ wallSeconds: Int64) -> UInt64 {
    let (left, overflow) = wallSeconds.subtractingReportingOverflow(certificateSeconds)
    if overflow || left > Int64(UInt32.max) { return .max }
    return nowSeconds + UInt64(max(0, left + 1))
  }

  // MARK: Trust

  /// Replaces the trust, and returns the previous one.
  func replace(trust: Trust) -> Trust {
    let previous = self.trust
    if trust.deviceAuthorities != previous.deviceAuthorities { authorityGeneration += 1 }
    self.trust = trust
    sealer = TokenSealer(trust.sealingKeys)
    return previous
  }

  // MARK: Devices

  /// The index of the worker that owns a device.
  func ownerIndex(of device: DeviceID) -> Int { device.ownerIndex(of: workerCount) }

  /// Whether this worker owns the device.
  func owns(_ device: DeviceID) -> Bool {
    ownerIndex(of: device) == index && decides(about: device)
  }

  /// Whether this service decides about a device.
  func decides(about device: DeviceID) -> Bool {
    decidesAboutAll || configuration.share.contains(device)
  }
}

/// How far a worker has shut down.
struct WorkerShutdown {
  /// Whether every connection has been told to end.
  private(set) var isDraining = false
  /// Whether devices have been told to disconnect.
  private(set) var isDrainingDevices = false
  /// Of use before the shutdown begins as well: an edge may stop while this service goes on.
  private var reconnectSpreadMilliseconds = Limits.reconnectSpreadMilliseconds.lowerBound

  /// - Parameter count: connected devices of all workers.
  mutating func beginWithDevices(count: Int) {
    isDrainingDevices = true
    let range = Limits.reconnectSpreadMilliseconds
    reconnectSpreadMilliseconds = min(
      max(UInt64(count) * Limits.reconnectMillisecondsPerDevice, range.lowerBound),
      range.upperBound)
  }

  /// Whether connections of such a listener have been told to end.
  func isDraining(_ kind: ListenerKind) -> Bool {
    kind == .courier ? isDrainingDevices : isDraining
  }

  mutating func beginWithProviders() { isDraining = true }

  /// The delay after which the device at a slot reconnects: a different one for each device, evenly spread.
  func reconnectMilliseconds(_ slot: Int32, of context: WorkerContext) -> UInt32 {
    let place =
      UInt64(UInt32(bitPattern: slot)) &* UInt64(context.workerCount) &+ UInt64(context.index)
    // The golden ratio's multiples, taken modulo 1, leave no gaps and no crowds.
    let fraction = place &* 0x9e37_79b9_7f4a_7c15
    return UInt32(
      clamping: fraction.multipliedFullWidth(by: reconnectSpreadMilliseconds).high)
  }
}

extension WorkerContext {
  var gate: ConnectionGate { shared.gate }
  var replays: ReplayGuard { shared.replays }
  var feedback: SharedFeedbackLeases { shared.feedback }
  var audit: AuditLog { shared.audit }

  /// The device and its name, for a line that is written: looking for the name takes a lock.
  func fields(of device: DeviceID?) -> [Log.Field] {
    guard let device else { return [.text("device", "unknown")] }
    let name = shared.labels?.read { $0.name(of: device) }
    return [.text("device", device.text)] + (name.map { [.text("device_name", $0.text)] } ?? [])
  }
  var expiries: ExpiryWatch { shared.expiries }
  var enrolment: EnrolmentQueue? { shared.enrolment }
}

extension DeviceID {
  /// Which of the workers of its node owns the device.
  ///
  /// A multiplication spreads ids that were not drawn at random; the high bits choose.
  func ownerIndex(of workerCount: Int) -> Int {
    let mixed = rawValue &* 0x9e37_79b9_7f4a_7c15
    return Int(mixed.multipliedFullWidth(by: UInt64(workerCount)).high)
  }
}
