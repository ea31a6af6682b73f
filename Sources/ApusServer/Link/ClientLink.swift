import ApusLoop
import ApusModel
import ApusWire

/// A link with the connections of an edge's clients, to one worker of the node that decides.
///
/// It is opened when the first client needs it.
final class ClientLink {
  private unowned let owner: ClientLinks
  private let context: WorkerContext
  private let workerIndex: Int
  private var stream: LinkStream?
  /// Whether the node has said how many workers it has.
  private var isReady = false
  /// Whether the node stops, and takes no more clients.
  private var isStopping = false
  private var waiting: ArraySlice<ForwardedClient> = []
  private var clients: [UInt32: ForwardedClient] = [:]
  /// How many of them the node is not known to have.
  private var openingCount = 0
  private var lastNumber: UInt32 = 0
  /// Clients that found no room for what they send.
  private var heldBack: ArraySlice<UInt32> = []
  private var output: [UInt8] = []
  private let partial = PartialFrames()
  private var dialing = LinkDialing()

  init(_ owner: ClientLinks, _ context: WorkerContext, workerIndex: Int) {
    self.owner = owner
    self.context = context
    self.workerIndex = workerIndex
  }

  var isCurrent: Bool { stream?.isCurrent(owner.edge) ?? true }
  /// Whether clients wait.
  var isAwaited: Bool { !waiting.isEmpty || openingCount > 0 }

  /// Whether its node has dealt with everything that clients have sent.
  var isQuiet: Bool { !isAwaited && clients.values.allSatisfy(\.isQuiet) }

  func add(_ client: ForwardedClient) {
    waiting.append(client)
    goOn()
  }

  /// Gives up those that wait.
  func takeWaiting() -> ArraySlice<ForwardedClient> {
    defer { waiting = [] }
    return waiting
  }

  /// Opens the link if clients wait for one, or lets them go.
  func goOn() {
    if stream == nil { connect() }
    while isReady, !isStopping, mayWrite, openingCount < Limits.linkOpeningsAtOnce,
      owner.edge.target != nil, let client = waiting.popFirst()
    {
      // The service of this process goes on with it.
      if owner.edge.isSurrendered, client.hasHadNode { continue }
      lastNumber += 1
      guard client.open(self, number: lastNumber) else { continue }
      clients[lastNumber] = client
      openingCount += 1
    }
  }

  /// Gives those up that have waited for long enough.
  func giveUp(nowMilliseconds now: UInt64) {
    let all = openingCount > 0 ? clients.inOrder + waiting : Array(waiting)
    waiting.removeAll { $0.giveUpMilliseconds <= now }
    for client in all where !client.isOpen && client.giveUpMilliseconds <= now {
      client.lost("the node that serves is not reached")
    }
  }

  private func connect() {
    guard !waiting.isEmpty else { return }
    do {
      stream = try dialing.dial(
        owner.edge, context, silenceMilliseconds: owner.silenceMilliseconds, user: self)
    } catch {
      lost("\(error)")
    }
  }

  // MARK: Writing

  var mayWrite: Bool {
    stream?.mayWrite == true && output.count < Limits.outputHighWaterBytes
  }

  /// The client is told when there is room.
  func holdBack(_ client: UInt32) { heldBack.append(client) }

  func send(_ kind: ClientFrame.Kind, of client: UInt32, _ content: Span<UInt8> = Span()) {
    guard stream != nil else { return }
    ClientFrame.encode(kind, of: client, content, to: &output)
  }

  func send(bytes: Span<UInt8>, of client: UInt32) {
    if stream != nil { ClientFrame.encode(bytes: bytes, of: client, to: &output) }
  }

  func send(credit: UInt32, of client: UInt32) {
    if stream != nil { ClientFrame.encode(.credit, credit, of: client, to: &output) }
  }

  /// Sends what the turn brought about.
  func endTurn() {
    while !output.isEmpty, let stream, stream.mayWrite {
      stream.write(output)
      output.removeAll(keepingCapacity: true)
      goOn()
    }
    // They write in the next turn.
    if goOnWriting() { context.loop.perform {} }
  }

  /// Tells the clients in the queue that there is room. False if there is no room, or no client in the queue.
  private func goOnWriting() -> Bool {
    guard mayWrite, !heldBack.isEmpty else { return false }
    let waiting = heldBack
    heldBack = []
    for client in waiting { clients[client]?.goOn() }
    return true
  }

  func forget(_ client: UInt32) {
    guard let forgotten = clients.removeValue(forKey: client) else { return }
    if forgotten.isOpening { openingCount -= 1 }
    send(.ended, of: client)
  }

  // MARK: The end

  /// Cuts the link off, with everything on it.
  func lost(_ fault: String) {
    stream?.abort()
    stream = nil
    (isReady, isStopping) = (false, false)
    output = []
    partial.removeAll()
    let ended = clients
    (clients, openingCount, heldBack, lastNumber) = ([:], 0, [], 0)
    owner.noteLost(fault)
    for client in ended.inOrder { waitAgain(client, fault) }
  }

  /// Has a client of this link wait for another one, if it may.
  private func waitAgain(_ client: ForwardedClient, _ fault: String) {
    if !owner.givesUnhandled { client.forgetUnhandled() }
    if client.waitAgain(untilMilliseconds: owner.resumeMilliseconds) {
      owner.add(client)
    } else {
      client.lost(fault)
    }
  }
}

extension ClientLink: LinkStreamUser {
  func linkOpened() {
    let index = UInt16(workerIndex)
    stream?.write(
      owner.edge.preface(.clients) + [UInt8(index >> 8), UInt8(truncatingIfNeeded: index)])
  }

  func linkReceived(_ bytes: Span<UInt8>) {
    partial.take(bytes) { bytes in
      var offset = 0
      while stream != nil {
        switch ClientFrame.next(bytes, at: &offset) {
        case .incomplete: return offset
        case .complete(let frame) where frame.kind == .workers:
          ready(bytes.extracting(frame.content))
        case .complete(let frame) where frame.kind == .stopping: isStopping = true
        case .complete(let frame):
          take(frame, bytes.extracting(frame.content))
        case .malformed: lost("what the node sends is malformed")
        }
      }
      return bytes.count
    }
  }

  private func take(_ frame: ClientFrame, _ content: Span<UInt8>) {
    guard let client = clients[frame.client] else { return }
    if frame.kind == .released { return released(frame.client, client) }
    let hasOpened = frame.kind == .opened && client.isOpening
    client.received(frame.kind, content)
    guard hasOpened else { return }
    openingCount -= 1
    if !waiting.isEmpty { goOn() }
  }

  private func released(_ number: UInt32, _ client: ForwardedClient) {
    clients[number] = nil
    if client.isOpening { openingCount -= 1 }
    waitAgain(client, "the node that serves stops")
  }

  private func ready(_ content: Span<UInt8>) {
    let count = content.count == 2 ? Int(content.bigEndianUInt16(at: 0)) : 0
    guard count > workerIndex else { return lost("the node has no worker \(workerIndex)") }
    isReady = true
    owner.opened(workerCount: count)
    goOn()
  }

  func linkDrained() {
    goOn()
    _ = goOnWriting()
  }

  func linkFinished() { lost("the node stops") }

  func linkLost(_ fault: String) {
    stream = nil
    lost(fault)
  }
}
