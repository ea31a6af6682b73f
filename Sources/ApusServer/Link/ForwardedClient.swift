import ApusModel
import ApusWire

/// Who passes on what a client of an edge says, and what it gets.
protocol ForwardedClientUser: AnyObject {
  /// The node that decides hears of the client.
  func clientOpened()
  /// What the node says: of each call, the client gets a TLS record of its own. In memory that the next call to TLS
  /// on this thread overwrites.
  func clientReceived(_ bytes: Span<UInt8>)
  /// There may be room for more again.
  func clientHasRoom()
  /// The node has said all.
  func clientFinished()
  /// The node was not reached in time, the link was lost, or the node has ended the connection. The last call.
  func clientLost(_ fault: String)
}

/// A client of an edge, on its way to the node that decides.
///
/// ```
/// waiting --a link is open--> opening --the node has it--> open --> ended
///    ^                           |
///    '------the link is lost-----'
/// ```
///
/// While no node decides, and until a node has it, it waits, for `Limits.linkWaitMilliseconds`, as a push does:
/// otherwise its handshake would have been in vain. Confined to its worker.
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
  let giveUpMilliseconds: UInt64
  /// Weak, because the user owns this object.
  private weak var user: (any ForwardedClientUser)?
  private var stage = Stage.waiting
  /// The content of the frame that opens it.
  private var opening: [UInt8]
  private var window = ClientWindow()
  /// Whether it is in the link's queue of clients that wait for room.
  private var isHeldBack = false
  private var isFinished = false
  private var isStopping = false

  /// - Parameters:
  ///   - description: Who the client is.
  ///   - first: What it has sent already.
  init(
    _ description: ForwardedPeer, _ first: [UInt8] = [], device: DeviceID? = nil,
    giveUpMilliseconds: UInt64, user: any ForwardedClientUser
  ) {
    opening = []
    description.encode(to: &opening)
    opening += first
    self.device = device
    self.giveUpMilliseconds = giveUpMilliseconds
    self.user = user
  }

  var isWaiting: Bool { if case .waiting = stage { true } else { false } }
  var isOpening: Bool { if case .opening = stage { true } else { false } }
  var isOpen: Bool { if case .open = stage { true } else { false } }

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
    link.send(.open, of: number, content.span)
    return true
  }

  /// The link was lost. False unless it may wait for another one.
  func waitAgain() -> Bool {
    guard isOpening else { return false }
    stage = .waiting
    return true
  }

  private func opened() {
    guard case .opening(let link, let number) = stage else { return }
    stage = .open(link, number: number)
    opening = []
    user?.clientOpened()
  }

  func received(_ kind: ClientFrame.Kind, _ content: Span<UInt8>) {
    switch kind {
    case .opened: opened()
    case .bytes: user?.clientReceived(content)
    case .credit where content.count == 4:
      window.granted(content.bigEndianUInt32(at: 0))
      user?.clientHasRoom()
    case .finished: user?.clientFinished()
    case .ended: lost("the node that serves has ended the connection")
    case .workers, .open, .stopping, .credit: break
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
