import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusWire

/// A link from another node with the connections of its clients, which this worker serves. Each has a `Connection` with
/// a ``LinkedClient``.
final class LinkedClients: ConnectionDriver {
  private let partial: PartialFrames
  private var output: [UInt8] = []
  private var clients: [UInt32: Connection] = [:]
  private var isDraining = false
  private var isOver = false
  /// Clients that found no room for what they get.
  private var heldBack: ArraySlice<UInt32> = []

  private static let clientsAtOnce = 256

  /// - Parameter unread: What has come already.
  init(_ connection: Connection, unread: [UInt8]) {
    partial = PartialFrames()
    super.init(connection)
    connection.schedule.deadlineSeconds = .max
    var count: [UInt8] = []
    count.append(bigEndian: UInt16(context.workerCount))
    send(.workers, of: 0, count.span)
    take(unread.span)
    if context.shutdown.isDraining { drain() }
  }

  // MARK: From the node

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    take(unsafe Span<UInt8>(_unsafeBytes: bytes))
  }

  private func take(_ bytes: Span<UInt8>) {
    partial.take(bytes) { bytes in
      var offset = 0
      while !isOver {
        switch ClientFrame.next(bytes, at: &offset) {
        case .incomplete: return offset
        case .malformed: fail("what it sends is malformed: do the nodes have different versions?")
        case .complete(let frame): take(frame, bytes.extracting(frame.content))
        }
      }
      return bytes.count
    }
  }

  private func take(_ frame: ClientFrame, _ content: Span<UInt8>) {
    if frame.kind == .open || frame.kind == .resume {
      return open(frame.client, content, isResumed: frame.kind == .resume)
    }
    guard let client = clients[frame.client], let linked = client.linked else { return }
    switch frame.kind {
    case .bytes: if !client.receive(linked, content) { fail("it sends more than it may") }
    case .credit:
      guard content.count == 4 else { return fail("a grant is malformed") }
      linked.granted(content.bigEndianUInt32(at: 0))
      client.markDirty()
    case .finished: client.clientFinished(linked)
    case .stopping: client.clientStops(linked)
    case .ended: client.clientEnded()
    case .workers, .open, .opened, .state, .handled, .released, .resume:
      fail("a frame of kind \(frame.kind.rawValue) is unexpected")
    }
  }

  private func open(_ number: UInt32, _ content: Span<UInt8>, isResumed: Bool) {
    guard let (peer, byteCount) = ForwardedPeer.read(content), clients[number] == nil else {
      return fail("the description of a client is malformed")
    }
    var resumed: (any HandedOverState)?
    if isResumed {
      guard peer.listener == .courier, let state = ClientState(content.extracting(byteCount...)),
        let device = connection.table.host?.readState(state)
      else { return fail("the state of a device is malformed") }
      // It was under way when the edge learned that this node stops.
      guard !context.shutdown.isDraining(.courier) else { return send(.released, of: number) }
      resumed = device
    }
    guard let client = connection.table.stand(for: peer, LinkedClient(self, number: number)) else {
      connection.noteLinkFault(
        "there is no room, or no listener \(peer.listener.rawValue) \(peer.environment.name)")
      return send(.ended, of: number)
    }
    clients[number] = client
    send(.opened, of: number)
    if let resumed {
      client.resumeLinked(resumed)
    } else {
      client.beginLinked(content.extracting(byteCount...))
    }
  }

  private func fail(_ fault: String) {
    isOver = true
    connection.noteLinkFault(fault, .error)
    connection.close()
  }

  // MARK: To the node

  /// Whether clients may get more now.
  var mayWrite: Bool { connection.mayWrite && output.count < Limits.outputHighWaterBytes }

  /// The client is told when there is room.
  func holdBack(_ client: UInt32) { heldBack.append(client) }

  /// Tells some of those that wait for room: the next ones follow when these have written.
  private func goOnWriting() {
    for _ in 0..<Self.clientsAtOnce {
      guard mayWrite, let number = heldBack.popFirst() else { return }
      clients[number]?.linked?.goOn()
      clients[number]?.markDirty()
    }
    if !heldBack.isEmpty { connection.markDirty() }
  }

  func send(_ kind: ClientFrame.Kind, of client: UInt32, _ content: Span<UInt8> = Span()) {
    guard !isOver else { return }
    ClientFrame.encode(kind, of: client, content, to: &output)
    connection.markDirty()
  }

  func send(bytes: Span<UInt8>, of client: UInt32) {
    guard !isOver else { return }
    ClientFrame.encode(bytes: bytes, of: client, to: &output)
    connection.markDirty()
  }

  /// - Parameter kind: `credit` or `handled`.
  func send(_ kind: ClientFrame.Kind, _ byteCount: UInt32, of client: UInt32) {
    guard !isOver else { return }
    ClientFrame.encode(kind, byteCount, of: client, to: &output)
    connection.markDirty()
  }

  override func flush() -> Connection.Ending {
    if !output.isEmpty, connection.mayWrite {
      connection.encrypt(output, count: output.count)
      output.removeAll(keepingCapacity: true)
    }
    goOnWriting()
    return isDraining && clients.isEmpty && output.isEmpty ? .now : .none
  }

  // MARK: The end

  /// The client's connection has ended here, for good or for the next node (`released`).
  func forget(_ client: UInt32, _ kind: ClientFrame.Kind) {
    guard clients.removeValue(forKey: client) != nil else { return }
    send(kind, of: client)
  }

  /// The service shuts down, beginning with its devices: new clients are for the next node.
  func beginDrain() { send(.stopping, of: 0) }

  /// The service shuts down: its clients are told by their protocols.
  override func drain() {
    isDraining = true
    connection.markDirty()
  }

  override func connectionClosed(_ end: Connection.End) {
    isOver = true
    let ended = clients
    clients = [:]
    for client in ended.inOrder { client.abort() }
  }
}

extension Dictionary where Key == UInt32 {
  /// By the numbers of the clients: a simulation must take the same course each time.
  var inOrder: [Value] { sorted { $0.key < $1.key }.map(\.value) }
}
