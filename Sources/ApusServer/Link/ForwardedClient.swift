import ApusModel
import ApusWire

/// Who passes on what a client of an edge says, and what it gets.
protocol ForwardedClientUser: AnyObject {
  /// Who the client is. Once a node has had it, its certificate is not needed any more.
  var clientDescription: ForwardedPeer { get }
  /// The node that decides hears of the client.
  func clientOpened()
  /// What the node says: of each call, the client gets a TLS record of its own. In memory that the next call to TLS
  /// on this thread overwrites.
  func clientReceived(_ bytes: Span<UInt8>)
  /// There may be room for more again.
  func clientHasRoom()
  /// The node has said all.
  func clientFinished()
  /// No node was reached in time, the connection cannot go on where the link was lost, or the node has ended it. The
  /// last call.
  func clientLost(_ fault: String)
}

/// A client of an edge, on its way to the node that decides.
///
/// ```
/// waiting --a link is open--> opening --the node has it--> open --> ended
///    ^                           |                           |
///    '------the link is lost-----'<------the link is lost----'
/// ```
///
/// While no node decides, and until a node has it, it waits, for `Limits.linkWaitMilliseconds`, as a push does:
/// otherwise its handshake would have been in vain.
///
/// A device whose node has stopped or is no longer reached keeps its connection, and the next node goes on with it: it
/// gets what the node before has said of the device (`ClientState`), and then what the device has sent that no node
/// has dealt with. A device need not learn that its node has changed. Confined to its worker.
final class ForwardedClient {
  private enum Stage {
    case waiting
    case opening(ClientLink, number: UInt32)
    case open(ClientLink, number: UInt32)
    case ended
  }

  /// Whose owner's worker serves it; nil for any.
  let device: DeviceID?
  /// Until when it waits for a node.
  private(set) var giveUpMilliseconds: UInt64
  /// Weak, because the user owns this object.
  private weak var user: (any ForwardedClientUser)?
  private var stage = Stage.waiting
  /// The content of the frame that opens it.
  private var opening: [UInt8]
  private var window = ClientWindow()
  /// What its nodes have said of a device.
  private var state = ClientState()
  /// What a device has sent that its node has not dealt with. Nil for others, and after that has become too much: no
  /// other node goes on with the connection.
  private var unhandled: [UInt8]?
  /// Whether what came last for the client may be continued.
  private var endsInPiece = false
  /// Whether it is in the link's queue of clients that wait for room.
  private var isHeldBack = false
  private var isFinished = false
  private var isStopping = false

  /// - Parameter first: What it has sent already.
  init(
    _ user: any ForwardedClientUser, _ first: [UInt8] = [], device: DeviceID? = nil,
    giveUpMilliseconds: UInt64
  ) {
    opening = []
    user.clientDescription.encode(to: &opening)
    opening += first
    self.device = device
    unhandled = device == nil ? nil : []
    self.giveUpMilliseconds = giveUpMilliseconds
    self.user = user
  }

  /// A device that another edge of this process had, and a node of its own.
  init(
    _ user: any ForwardedClientUser, goingOn state: ClientState, device: DeviceID?,
    giveUpMilliseconds: UInt64
  ) {
    opening = []
    user.clientDescription.encode(to: &opening)
    opening += state.bytes
    (self.state, self.device, unhandled) = (state, device, [])
    self.giveUpMilliseconds = giveUpMilliseconds
    self.user = user
  }

  var isWaiting: Bool { if case .waiting = stage { true } else { false } }
  var isOpening: Bool { if case .opening = stage { true } else { false } }
  var isOpen: Bool { if case .open = stage { true } else { false } }

  /// Whether a node has dealt with everything that the client has sent.
  var isQuiet: Bool { isOpen && unhandled?.isEmpty != false }

  // MARK: From the client

  /// Whether more of the client may go to the node now. If the link has no room, the client is told when it has.
  var hasRoom: Bool {
    guard case .open(let link, let number) = stage, window.hasRoom else { return false }
    if link.mayWrite { return true }
    if !isHeldBack {
      isHeldBack = true
      link.holdBack(number)
    }
    return false
  }

  func send(_ bytes: Span<UInt8>) {
    guard case .open(let link, let number) = stage, !isFinished else { return }
    unhandled?.append(bytes)
    if unhandled?.count ?? 0 > Limits.linkClientBytes { unhandled = nil }
    window.sent(bytes.count)
    link.send(bytes: bytes, of: number)
  }

  /// Nothing more comes of the client, or it has everything: see ``ClientFrame/Kind/finished``.
  func finish() {
    guard case .open(let link, let number) = stage, !isFinished else { return }
    isFinished = true
    link.send(.finished, of: number)
  }

  /// This node stops: the node that decides is to end the connection in its protocol's way.
  func stop() {
    guard case .open(let link, let number) = stage, !isStopping else { return }
    isStopping = true
    link.send(.stopping, of: number)
  }

  /// The user gets no further call.
  func end() {
    user = nil
    defer { stage = .ended }
    switch stage {
    case .opening(let link, let number), .open(let link, let number): link.forget(number)
    case .waiting, .ended: return
    }
  }

  // MARK: To the client

  /// The client's connection has taken so many bytes.
  func passed(_ count: Int) {
    guard case .open(let link, let number) = stage, let credit = window.passed(count) else {
      return
    }
    link.send(credit: credit, of: number)
  }

  // MARK: The link

  /// Goes to the node over `link`. False if nobody is interested any more.
  func open(_ link: ClientLink, number: UInt32) -> Bool {
    guard isWaiting, user != nil else { return false }
    stage = .opening(link, number: number)
    let content = opening
    link.send(state.isComplete ? .resume : .open, of: number, content.span)
    return true
  }

  /// The link was lost, or its node stops. False unless the client may wait for another one.
  ///
  /// - Parameter limit: Until when a device waits whose node has had it.
  func waitAgain(untilMilliseconds limit: UInt64) -> Bool {
    switch stage {
    case .opening: break
    case .open:
      guard let user, mayGoOn else { return false }
      user.clientDescription.encode(to: &opening)
      opening += state.bytes
      (giveUpMilliseconds, window, isHeldBack) = (limit, ClientWindow(), false)
    case .waiting, .ended: return false
    }
    stage = .waiting
    return true
  }

  /// Whether it is a device that a node has had, so that the next one goes on with it.
  var hasHadNode: Bool { state.isComplete }

  /// This node is the next one: gives up what it has to know, and what no node has dealt with. Nil unless it can go on
  /// with the connection.
  func takeState() -> (state: ClientState, unhandled: [UInt8])? {
    guard mayGoOn, let unhandled else { return nil }
    end()
    return (state, unhandled)
  }

  /// Whether another node may go on with a device that a node has had.
  private var mayGoOn: Bool {
    unhandled != nil && state.isComplete && !endsInPiece && !isFinished && !isStopping
  }

  private func opened() {
    guard case .opening(let link, let number) = stage else { return }
    stage = .open(link, number: number)
    opening = []
    if let bytes = unhandled, !bytes.isEmpty {
      window.sent(bytes.count)
      link.send(bytes: bytes.span, of: number)
    }
    user?.clientOpened()
  }

  func forgetUnhandled() { unhandled = unhandled.map { _ in [] } }

  private func handled(_ count: Int) {
    guard let known = unhandled?.count else { return }
    if count < known {
      unhandled?.removeFirst(count)
    } else {
      // A quiet device holds no memory for them.
      unhandled?.removeAll(keepingCapacity: known <= Self.keptBytes)
    }
  }

  private static let keptBytes = 128

  func received(_ kind: ClientFrame.Kind, _ content: Span<UInt8>) {
    switch kind {
    case .opened: opened()
    case .bytes:
      endsInPiece = content.count == ClientFrame.pieceBytes
      user?.clientReceived(content)
    case .state: state.take(content)
    case .handled where content.count == 4: handled(Int(content.bigEndianUInt32(at: 0)))
    case .credit where content.count == 4:
      window.granted(content.bigEndianUInt32(at: 0))
      user?.clientHasRoom()
    case .finished: user?.clientFinished()
    case .ended: lost("the node that serves has ended the connection")
    case .workers, .open, .resume, .released, .stopping, .credit, .handled: break
    }
  }

  /// The link has room again.
  func goOn() {
    isHeldBack = false
    user?.clientHasRoom()
  }

  /// The link has ended, or no node had the client in time.
  func lost(_ fault: String) {
    let told = user
    end()
    told?.clientLost(fault)
  }
}
