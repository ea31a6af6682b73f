import ApusCommand
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// One provider of the binary interface: connects, sends, learns what was accepted, and begins again.
final class CrashSender: BinaryLinkOwner {
  enum Door {
    /// Success is silent. Now and then a notification that is known to be bad asks whether all before it were taken.
    case silent
    /// `+confirm`: each is answered.
    case confirming
  }

  private enum State {
    case idle, connecting, open
    /// Asked, and sends nothing behind the question.
    case asked(identifier: UInt32)
  }

  private unowned let run: CrashRun
  /// Whose tokens it sends to. Set once, before anything else.
  weak var load: CrashLoad?
  private let door: Door
  private let loop: EventLoop
  private let endpoint: BinaryEndpoint
  private let memory: BinaryLinkMemory
  private var link: BinaryLink?
  private var state = State.idle
  private var stream: Int
  /// Numbers on this connection that the service has said nothing about, in order.
  private var open: [Int] = []
  private var frames: [UInt8] = []

  /// Notifications without an answer that a confirming sender has under way.
  private static let windowCount = 400
  /// Questions have identifiers of their own.
  private static let firstQuestion: UInt32 = 0xf000_0000

  init(
    run: CrashRun, door: Door, loop: EventLoop, endpoint: BinaryEndpoint,
    memory: BinaryLinkMemory, stream: Int
  ) {
    self.run = run
    self.door = door
    self.loop = loop
    self.endpoint = endpoint
    self.memory = memory
    self.stream = stream
  }

  /// Whether the service owes it no word.
  var isQuiet: Bool { open.isEmpty }

  var isIdle: Bool { if case .idle = state { true } else { false } }

  /// Whether it could send now.
  var isOpen: Bool {
    if case .open = state { open.count < Self.windowCount || door == .silent } else { false }
  }

  func connect() throws(CommandFailure) {
    guard isIdle else { return }
    // Numbers of streams stay apart by as many senders as there are.
    stream += CrashLoad.senderCount
    do {
      link = try BinaryLink(to: endpoint, loop: loop, memory: memory, owner: self)
      state = .connecting
    } catch {
      throw error as? CommandFailure ?? CommandFailure(.unavailable, "\(error)")
    }
  }

  /// Sends to these devices, in this order.
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

  /// Lets the service say that everything so far is accepted; it then ends the connection.
  func ask() {
    guard case .open = state, let link else { return }
    let identifier = Self.firstQuestion + UInt32(truncatingIfNeeded: stream)
    state = .asked(identifier: identifier)
    let question = BinaryFrames.knownBad(identifier: identifier)
    link.write(question.span, recordBytes: TLSBuffers.recordBytes)
  }

  // MARK: What the service says

  func linkOpened(_ link: BinaryLink) { state = .open }

  func linkTakesMore(_ link: BinaryLink) {}

  func link(_ link: BinaryLink, received packet: BinaryPacket) {
    let number = Int(packet.identifier) - 1
    if packet.status == BinaryStatus.noError.rawValue {
      guard door == .confirming, open.first == number else {
        return run.fail("\(number) was confirmed out of turn")
      }
      open.removeFirst()
      return run.accepted(number)
    }
    if case .asked(let identifier) = state, packet.identifier == identifier {
      take(open.count)
      return
    }
    // "The one that is named and everything behind it were not taken"; at a shutdown the one that is named was.
    let isShutdown = packet.status == BinaryStatus.shutdown.rawValue
    let index = open.firstIndex(of: number)
    // It may name one that was confirmed before, or identifier 0 where nothing was taken.
    guard index != nil || isShutdown else {
      return run.fail("status \(packet.status) names \(number), which was not sent")
    }
    if let index { take(isShutdown ? index + 1 : index) }
    for number in open { run.account.end(number, .refused) }
    open.removeAll()
    if !isShutdown, packet.status != BinaryStatus.processingError.rawValue {
      run.fail("\(number) was refused with status \(packet.status)")
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
    // The link itself is let go with the next one: it is still at work here.
    state = .idle
  }
}
