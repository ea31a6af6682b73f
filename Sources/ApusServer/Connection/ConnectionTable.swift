import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire
import Glibc

/// What a table of connections asks of its worker.
protocol ConnectionHost: AnyObject {
  /// Begins the protocol of a connection whose handshake is completed; nil if the connection is to be closed.
  func beginProtocol(of connection: Connection) -> ConnectionDriver?
  /// Begins the protocol of a connection that another node uses for itself.
  ///
  /// - Parameters:
  ///   - worker: The index of the worker that is to have it; nil for any.
  ///   - unread: What has come already.
  func beginLink(
    of connection: Connection, _ use: LinkUse, at worker: Int?, unread: [UInt8]
  ) -> ConnectionDriver
  /// One of the listeners of a kind and an environment; nil if none is open.
  ///
  /// - Parameter ordinal: Which, from 0 on; the first if there are not as many.
  func listener(
    _ kind: ListenerKind, _ environment: Environment, ordinal: Int
  ) -> ServiceListener?
  /// Continues with the protocol of a connection that was accepted elsewhere.
  /// Nil if the connection is to be closed.
  func resumeProtocol(
    _ state: any HandedOverState, of connection: Connection
  ) -> ConnectionDriver?
  /// Reads what another node has said of a device; nil if it is malformed.
  func readState(_ state: ClientState) -> (any HandedOverState)?
  /// Sends the connection to the worker that continues with it: the owner of its device, or the one that serves
  /// providers.
  func handOver(_ connection: HandedOverConnection)

  func isDormant(_ slot: Int32) -> Bool
  func wake(_ slot: Int32) -> Connection
  /// Replaces a quiet connection by a row, if that can represent it.
  func fallDormant(_ connection: Connection) -> Bool
  /// The wheel has come to a dormant connection.
  func lookAtDormant(_ slot: Int32)
  /// A crowd has gone.
  func returnMemory()
}

/// The connections of a worker: their slots, their deadlines, and those with something to write.
@safe final class ConnectionTable: @unchecked Sendable {
  typealias Entry = DeadlineWheel.Entry

  let context: WorkerContext
  /// Strong, as in `ConnectionDriver`; `dismantle` ends the cycle.
  var host: (any ConnectionHost)?
  let listening: ListeningSockets
  var untrustedWork: UntrustedWork
  private var untrusted = UntrustedConnections()
  /// By slots; nil also where the connection is dormant.
  private var connections: [Connection?] = []
  private var generations: [UInt32] = []
  private var freeSlots: [Int32] = []
  private(set) var counts = ConnectionCounts()
  private var dirty: [Connection] = []
  /// The links among them, whose clients come first.
  private var dirtyLinks: [Connection] = []
  private var wheel: DeadlineWheel
  /// Made with the first pause; nil again when the table is dismantled.
  private var pauses: PauseQueue?

  init(_ context: WorkerContext) {
    self.context = context
    listening = ListeningSockets(loop: context.loop)
    untrustedWork = UntrustedWork(halfOpenLimit: context.configuration.halfOpenLimit)
    wheel = DeadlineWheel(nowSeconds: context.nowSeconds)
  }

  /// All connections, the dormant ones included.
  var count: Int { connections.count - freeSlots.count }

  /// Those that are not dormant.
  var awakeConnections: some Sequence<Connection> { connections.lazy.compactMap(\.self) }

  // MARK: Coming and going

  func accept(_ descriptor: Int32, _ peer: SocketAddress, _ listener: ServiceListener) {
    let gate = context.gate
    let isProxied = listener.proxies != nil
    guard isAllowed(peer, listener),
      makeRoom(for: peer, { gate.accept(from: isProxied ? nil : peer, at: listener) })
    else {
      Glibc.close(descriptor)
      return
    }
    let slot = takeSlot()
    do {
      // Its own statement: a descriptor that no socket has taken up yet must be closed here.
      let tls: TLSConnection
      do { tls = try TLSConnection(context: listener.context) } catch {
        Glibc.close(descriptor)
        throw error
      }
      let connection = Connection(
        table: self, listener: listener, entry: slot,
        socket: try Socket(adopting: descriptor, loop: context.loop), peer: peer, tls: tls,
        acceptedMilliseconds: context.loop.nowMilliseconds)
      if isProxied { connection.untrusted.awaitProxyHeader() }
      insert(connection)
      untrusted.append(connection, self)
      watch(connection)
    } catch {
      gate.close(isProxied ? nil : peer, at: listener, holder: nil)
      refuse(slot, peer, error)
    }
  }

  /// Whether the peer may connect at all: only proxies may tell who their clients are.
  private func isAllowed(_ peer: SocketAddress, _ listener: ServiceListener) -> Bool {
    guard let proxies = listener.proxies, !proxies.contains(where: { $0.contains(peer) }) else {
      return true
    }
    context.ended.count(.proxy)
    context.log.limited(.notice, .proxyUnknown, atMilliseconds: context.loop.nowMilliseconds) {
      [
        .text("peer", peer.description), .text("listener", listener.name),
        .text("remedy", "if it is a proxy, add it to --proxy-from"),
      ]
    }
    return false
  }

  /// Counts a connection, by `count`. If its address holds too many untrusted ones, the oldest of them makes room: a
  /// valid peer behind that address only needs to be faster than those that come after it.
  ///
  /// - Parameter newcomer: The connection, if it is in the table already.
  func makeRoom(
    for peer: SocketAddress, newcomer: Connection? = nil, _ count: () -> Bool
  ) -> Bool {
    if count() { return true }
    listening.noteCrowded()
    if let oldest = untrusted.oldest(of: peer.site, self), oldest !== newcomer {
      context.gate.noteEvicted()
      oldest.abort()
      if count() { return true }
    }
    context.gate.noteRefused()
    return false
  }

  /// A proxy has named the client of a connection: from now on it counts for the client's address. False if that holds
  /// too many.
  func identify(_ connection: Connection, as client: SocketAddress, headerByteCount: Int) -> Bool {
    let gate = context.gate
    let hasRoom = makeRoom(for: client, newcomer: connection) {
      gate.assign(client, at: connection.listener)
    }
    guard hasRoom else { return false }
    untrusted.remove(connection)
    connection.identify(client, headerByteCount: headerByteCount)
    untrusted.append(connection, self)
    return true
  }

  /// Makes the connection of a client at another node. Nil if the service has no such listener, or the client's address
  /// holds too many.
  func stand(for client: ForwardedPeer, _ linked: LinkedClient) -> Connection? {
    let (gate, peer) = (context.gate, SocketAddress(client.address))
    guard
      let listener = host?.listener(
        client.listener, client.environment, ordinal: Int(client.ordinal)),
      makeRoom(for: peer, { gate.accept(from: peer, at: listener) })
    else { return nil }
    let slot = takeSlot()
    do {
      let tls = try TLSConnection(context: listener.context)
      tls.represent(RepresentedPeer(client))
      let connection = Connection(
        table: self, listener: listener, entry: slot, socket: .none(on: context.loop), peer: peer,
        tls: tls, linked: linked, acceptedMilliseconds: context.loop.nowMilliseconds, stage: .open)
      insert(connection)
      untrusted.append(connection, self)
      watch(connection)
      return connection
    } catch {
      gate.close(peer, at: listener, holder: nil)
      refuse(slot, peer, error)
      return nil
    }
  }

  /// Takes over a connection that was accepted elsewhere. Providers are few, and go first: thousands of devices may
  /// answer for a broadcast at once.
  func adopt(_ handed: HandedOverConnection) {
    // The sender's turn may have begun after this one: without this, the connection's times would be in the future.
    context.loop.updateNow()
    let slot = takeSlot()
    do {
      let connection = Connection(
        table: self, listener: handed.listener, entry: slot,
        socket: try Socket(
          adopting: handed.descriptor, loop: context.loop,
          goesFirst: handed.listener.kind != .courier), peer: handed.peer, tls: handed.tls,
        acceptedMilliseconds: handed.acceptedMilliseconds, stage: .open)
      insert(connection)
      connection.resume(handed)
      // It was under way while this worker told its connections to end.
      if context.shutdown.isDraining(handed.listener.kind) { connection.drain() }
      connection.markDirty()
    } catch {
      context.gate.close(handed.peer, at: handed.listener, holder: handed.holder)
      refuse(slot, handed.peer, error)
    }
  }

  private func insert(_ connection: Connection) {
    connections[Int(connection.slot)] = connection
    counts[connection.listener.kind, connection.listener.environment] += 1
  }

  private func refuse(_ entry: Entry, _ peer: SocketAddress, _ error: any Error) {
    context.log.limited(.error, .connectionRefused, atMilliseconds: context.loop.nowMilliseconds) {
      [.text("peer", peer.description), .text("reason", "\(error)")]
    }
    freeSlots.append(entry.slot)
  }

  private func takeSlot() -> Entry {
    if let slot = freeSlots.popLast() {
      return Entry(slot: slot, generation: generations[Int(slot)])
    }
    connections.append(nil)
    generations.append(0)
    return Entry(slot: Int32(connections.count - 1), generation: 0)
  }

  /// - Parameter goesOn: Whether another worker continues with it; then the gate still counts it.
  func forget(_ connection: Connection, goesOn: Bool = false) {
    let index = Int(connection.slot)
    if connection.holder == nil { untrusted.remove(connection) }
    connection.endHandshake()
    connections[index] = nil
    generations[index] &+= 1
    freeSlots.append(connection.slot)
    counts[connection.listener.kind, connection.listener.environment] -= 1
    guard !goesOn else { return }
    context.gate.close(
      connection.countedPeer, at: connection.listener, holder: connection.holder)
  }

  /// Its peer has proved its identity.
  func becameTrusted(_ connection: Connection) { untrusted.remove(connection) }

  // MARK: Looking up

  /// The connection of the slot; a dormant one is woken.
  func connection(at slot: Int32) -> Connection? {
    connections[Int(slot)] ?? (host?.isDormant(slot) == true ? host?.wake(slot) : nil)
  }

  /// The same, if it is the connection that the entry was made for.
  func connection(_ entry: Entry) -> Connection? {
    generations[Int(entry.slot)] == entry.generation ? connection(at: entry.slot) : nil
  }

  /// The same without waking it: nil if it is dormant, which no untrusted connection is.
  func awake(_ entry: Entry) -> Connection? {
    generations[Int(entry.slot)] == entry.generation ? connections[Int(entry.slot)] : nil
  }

  /// The entry of the slot's present connection.
  func entry(at slot: Int32) -> Entry {
    Entry(slot: slot, generation: generations[Int(slot)])
  }

  /// Removes the object of a connection that falls dormant; it keeps its slot.
  func removeObject(at slot: Int32) { connections[Int(slot)] = nil }

  /// Restores the object of a connection that wakes.
  func restore(_ connection: Connection) { connections[Int(connection.slot)] = connection }

  // MARK: Writing

  /// The connection has output, and is not in the list yet.
  func append(dirty connection: Connection) {
    if connection.listener.kind == .link {
      dirtyLinks.append(connection)
    } else {
      dirty.append(connection)
    }
  }

  /// Lets all connections with output write. Links come last: what their clients get leaves together.
  func flushDirty() {
    while let connection = dirty.popLast() ?? dirtyLinks.popLast() { connection.flush() }
  }

  // MARK: Deadlines

  /// Has the wheel come to the connection at its deadline, or when it has been quiet for long enough to fall dormant.
  func watch(_ connection: Connection) {
    guard let seconds = connection.schedule.missingSeconds else { return }
    connection.schedule.added(atSeconds: watch(connection.entry, deadlineSeconds: seconds))
  }

  /// Adds an entry to the wheel, and returns the second at which the wheel comes to it.
  func watch(_ entry: Entry, deadlineSeconds: UInt64) -> UInt64 {
    wheel.add(entry, deadlineSeconds: deadlineSeconds)
  }

  func advanceWheel() { wheel.advance(toSeconds: context.nowSeconds) }

  /// Checks connections that are due, a limited number in each turn: thousands that connected within one second are due
  /// within one, and ending them all at once would delay everything else.
  func lookAtDue() {
    for _ in 0..<Limits.duePerTurn {
      guard let entry = wheel.takeDue() else { return }
      look(at: entry, context.nowSeconds)
    }
    if wheel.hasDue { context.loop.perform {} }
  }

  private func look(at entry: Entry, _ now: UInt64) {
    guard generations[Int(entry.slot)] == entry.generation else { return }
    guard let connection = connections[Int(entry.slot)] else {
      host?.lookAtDormant(entry.slot)
      return
    }
    guard connection.schedule.reached(atSeconds: now) else { return }
    if connection.schedule.dueSeconds <= now { return connection.deadlineReached() }
    if connection.schedule.quietSeconds <= now {
      guard host?.fallDormant(connection) != true else { return }
      connection.schedule.quietSeconds = now + context.configuration.dormantSeconds
    }
    watch(connection)
  }

  /// Calls `pauseEnded` of the connection when the pause after its last output is over.
  func pause(_ connection: Connection) {
    let pauses = pauses ?? PauseQueue(self)
    self.pauses = pauses
    pauses.append(connection)
  }

  // MARK: Reports

  /// One line for all connections that were refused or ended since the last one.
  func reportRefused() {
    guard let count = context.gate.takeReport(nowSeconds: context.nowSeconds) else { return }
    let figures = context.gate.figures
    context.log(
      .warning, "untrusted connections refused", .number("count", count),
      .number("untrusted", figures.untrusted), .number("capacity", figures.capacity))
  }

  /// The same for those that found no descriptor: the process's limit is lower than the budget takes it for, or
  /// something else uses its descriptors up.
  func reportDescriptors() {
    guard let count = listening.takeDescriptorReport(nowSeconds: context.nowSeconds) else { return }
    context.log.limited(
      .warning, .descriptorsUsedUp, atMilliseconds: context.loop.nowMilliseconds
    ) {
      [.number("count", count), .number("capacity", context.gate.figures.capacity)]
    }
  }

  // MARK: The end

  func abortAll() {
    for slot in connections.indices { connection(at: Int32(slot))?.abort() }
  }

  /// Aborts and releases everything.
  func dismantle() {
    abortAll()
    (connections, dirty, dirtyLinks) = ([], [], [])
    pauses = nil
    host = nil
  }
}

extension RepresentedPeer {
  convenience init(_ client: ForwardedPeer) {
    let name = String(decoding: client.applicationProtocol, as: UTF8.self)
    self.init(
      applicationProtocol: name.isEmpty ? nil : name,
      certificateDER: client.certificateDER.isEmpty ? nil : client.certificateDER)
  }
}
