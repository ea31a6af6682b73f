import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A legacy sender: connects, sends, learns what was accepted, and starts over.
final class CrashSender: BinaryLinkOwner {
  enum ServiceListener {
    /// Success is silent. Now and then it sends a bad notification, whose error packet confirms all earlier ones.
    case silent
    /// With `+confirm`, each notification gets a response.
    case confirming
  }

  private enum State {
    case idle, connecting, open
    /// Waits for the error packet of a bad notification, and sends nothing after it.
    case asked(identifier: UInt32)
  }

  private unowned let run: CrashRun
  /// The load whose tokens it sends to. Set once, before use.
  weak var load: CrashLoad?
  private let listener: ServiceListener
  private let loop: EventLoop
  private let endpoint: BinaryEndpoint
  private let memory: BinaryLinkMemory
  private var link: BinaryLink?
  private var state = State.idle
  private var stream: Int
  /// Numbers of notifications on this connection without a response, in order.
  private var open: [Int] = []
  private var frames: [UInt8] = []

  /// Maximum number of notifications without a response, with confirmation.
  private static let windowCount = 400
  /// Bad notifications have identifiers from here on.
  private static let firstQuestion: UInt32 = 0xf000_0000

  init(
    run: CrashRun, listener: ServiceListener, loop: EventLoop, endpoint: BinaryEndpoint,
    memory: BinaryLinkMemory, stream: Int
  ) {
    self.run = run
    self.listener = listener
    self.loop = loop
    self.endpoint = endpoint
    self.memory = memory
    self.stream = stream
  }

  /// Whether all notifications have an outcome.
  var isQuiet: Bool { open.isEmpty }

  var isIdle: Bool { if case .idle = state { true } else { false } }

  /// Whether it can send now.
  var isOpen: Bool {
    if case .open = state { open.count < Self.windowCount || listener == .silent } else { false }
  }

  func connect() throws(CommandFailure) {
    guard isIdle else { return }
    // Stream numbers of all senders are distinct.
    stream += CrashLoad.senderCount
    do {
      link = try BinaryLink(to: endpoint, loop: loop, memory: memory, owner: self)
      state = .connecting
    } catch {
      throw error as? CommandFailure ?? CommandFailure(.unavailable, "\(error)")
    }
  }

  /// Sends to the given devices, in order.
  func send(to devices: [Int], isStored: Bool) {
    guard isOpen, let link else { return }
    frames.removeAll(keepingCapacity: true)
    for device in devices {
      let number = run.account.send(to: device, on: stream, isStored: isStored)
      open.append(number)
      load?.sent(number, to: device)
      let token = load?.tokenBytes(of: device) ?? []
      let payload = CrashPayload.bytes(number)
      frames.append(
        framed: token.span, payload: payload.span, identifier: UInt32(number + 1),
        expiration: isStored ? run.expirationSeconds : 0, priority: 10)
    }
    let bytes = frames
    link.write(bytes.span, recordBytes: TLSBuffers.recordBytes)
  }

  /// Sends a bad notification, so that the service confirms everything so far; the service then ends the connection.
  func ask() {
    guard case .open = state, let link else { return }
    let identifier = Self.firstQuestion + UInt32(truncatingIfNeeded: stream)
    state = .asked(identifier: identifier)
    let question = BinaryFrames.knownBad(identifier: identifier)
    link.write(question.span, recordBytes: TLSBuffers.recordBytes)
  }

  // MARK: Responses of the service

  func linkOpened(_ link: BinaryLink) { state = .open }

  func linkTakesMore(_ link: BinaryLink) {}

  func link(_ link: BinaryLink, received packet: BinaryPacket) {
    let number = Int(packet.identifier) - 1
    if packet.status == BinaryStatus.noError.rawValue {
      guard listener == .confirming, open.first == number else {
        return run.fail("\(number) was confirmed out of order")
      }
      open.removeFirst()
      return run.accepted(number)
    }
    if case .asked(let identifier) = state, packet.identifier == identifier {
      take(open.count)
      return
    }
    // The named notification and all later ones were not accepted; at a shutdown the named one was.
    let isShutdown = packet.status == BinaryStatus.shutdown.rawValue
    let index = open.firstIndex(of: number)
    // At a shutdown it may name an already confirmed notification, or 0 if none was accepted.
    guard index != nil || isShutdown else {
      return run.fail("status \(packet.status) names \(number), which was not sent")
    }
    if let index { take(isShutdown ? index + 1 : index) }
    for number in open { run.account.end(number, .refused) }
    open.removeAll()
    if !isShutdown, packet.status != BinaryStatus.processingError.rawValue {
      run.fail("\(number) was rejected with status \(packet.status)")
    }
  }

  private func take(_ count: Int) {
    let taken = open.prefix(count)
    open.removeFirst(count)
    for number in taken { run.accepted(number) }
  }

  func linkEnded(_ link: BinaryLink, _ failure: String?) {
    for number in open { run.account.end(number, .unknown) }
    open.removeAll()
    // The link object stays alive until the next one replaces it, because it is still in use here.
    state = .idle
  }
}
