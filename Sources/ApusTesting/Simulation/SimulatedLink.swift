import ApusLoop
import Glibc

/// Receives the events at the far end of a connection, a provider or a device.
protocol LinkPeer: AnyObject {
  func linkConnected()
  /// `wallMilliseconds` is the service's time when it wrote the bytes.
  func linkReceived(_ bytes: [UInt8], wallMilliseconds: Int64)
  /// The service closed its sending side.
  func linkEnded()
  /// Refused, reset or timed out. Nothing follows.
  func linkFailed()
  /// Whether it is to be told of room for what it sends.
  var awaitsRoom: Bool { get }
  func linkHasRoom()
}

extension LinkPeer {
  var awaitsRoom: Bool { false }
  func linkHasRoom() {}
}

/// One direction of a connection.
final class Pipe {
  struct Segment {
    var bytes: [UInt8]
    var wallMilliseconds: Int64 = 0
    var isEnd = false
    var isReset = false
    /// Its position in the order of sending, which the network preserves.
    var number: UInt64 = 0
  }

  /// Bytes that both kernels can hold together: in flight, or waiting to be read.
  let capacity: Int
  var inFlightBytes = 0
  var arrived: [UInt8] = []
  var head = 0
  /// Segments sent while the network is cut, to be sent again.
  var held: [Segment] = []
  var nextArrival: UInt64 = 0
  var sentCount: UInt64 = 0
  var hasEnded = false
  var endArrived = false
  /// For so long bytes may be unacknowledged.
  var userTimeoutMilliseconds: UInt64 = 924_000
  /// Since when bytes have been unacknowledged.
  var unacknowledgedSince: UInt64?

  init(capacity: Int) { self.capacity = capacity }

  /// Keeps a segment that was in flight, before those sent later.
  func hold(_ segment: Segment) {
    let place = held.firstIndex { $0.number > segment.number } ?? held.count
    held.insert(segment, at: place)
  }

  var unreadBytes: Int { arrived.count - head }
  var room: Int { max(0, capacity - inFlightBytes - unreadBytes) }
}

/// A TCP connection between a peer and the service, with all its possible faults.
final class SimulatedLink {
  let number: Int
  let listener: Int
  /// The service's machine.
  let host: SimulatedHost
  let network: SimulatedNetwork
  /// The service's end.
  let descriptor: Int32
  /// Nil once the peer has closed its end.
  weak var peer: (any LinkPeer)?
  /// Nil until the service watches its end.
  weak var loop: EventLoop?
  let toService: Pipe
  let toPeer: Pipe
  /// Data written by the peer's program that its kernel has no room for.
  private var backlog: [Pipe.Segment] = []

  private(set) var isPeerOpen = true
  private(set) var isServiceOpen = true
  /// The machine has disappeared without notice.
  private(set) var isPeerGone = false
  private(set) var isServiceGone = false
  private(set) var isCut = false
  /// The error that the service's next system call on its end returns.
  private var serviceError: Int32?
  /// Whether the service's output had to wait for room.
  private(set) var wasBlocked = false
  /// Whether the peer's program reads what arrives.
  var isPeerReading = true { didSet { if isPeerReading { deliverToPeer() } } }
  private var unreadByPeer: [Pipe.Segment] = []

  init(
    _ number: Int, listener: Int, peer: any LinkPeer, host: SimulatedHost,
    network: SimulatedNetwork, capacity: Int
  ) {
    self.number = number
    self.listener = listener
    self.peer = peer
    self.host = host
    self.network = network
    descriptor = Int32(1_000_000 + number)
    toService = Pipe(capacity: capacity)
    toPeer = Pipe(capacity: capacity)
  }

  /// Whether nothing can happen on it any more.
  var isOver: Bool {
    (!isPeerOpen || isPeerGone) && (!isServiceOpen || isServiceGone)
  }

  // MARK: The network between

  private func send(_ segment: Pipe.Segment, into pipe: Pipe) {
    var segment = segment
    segment.number = pipe.sentCount
    pipe.sentCount += 1
    pipe.inFlightBytes += segment.bytes.count
    if pipe.unacknowledgedSince == nil, !segment.bytes.isEmpty { awaitProgress(of: pipe) }
    guard !isCut else { return pipe.held.append(segment) }
    let arrival = max(pipe.nextArrival, network.timeline.now + network.delay())
    pipe.nextArrival = arrival
    network.timeline.at(arrival) { [self] in arrive(segment, at: pipe) }
  }

  private func arrive(_ segment: Pipe.Segment, at pipe: Pipe) {
    guard !isCut else { return pipe.hold(segment) }
    if pipe === toService { arriveAtService(segment) } else { arriveAtPeer(segment) }
  }

  /// TCP gives up on a peer without acknowledgements after a quarter of an hour (tcp_retries2), or when it was told to.
  private func awaitProgress(of pipe: Pipe) {
    let since = network.timeline.now
    pipe.unacknowledgedSince = since
    network.timeline.after(1000 * pipe.userTimeoutMilliseconds) { [self] in
      guard pipe.unacknowledgedSince == since else { return }
      if pipe === toPeer { failService(ETIMEDOUT) } else { failPeer() }
    }
  }

  private func acknowledge(_ segment: Pipe.Segment, of pipe: Pipe) {
    pipe.inFlightBytes -= segment.bytes.count
    pipe.unacknowledgedSince = nil
    if pipe.inFlightBytes > 0 { awaitProgress(of: pipe) }
  }

  /// Blocks both directions until `heal`.
  func cut() { isCut = true }

  func heal() {
    guard isCut else { return }
    isCut = false
    for pipe in [toService, toPeer] {
      let held = pipe.held
      pipe.held = []
      for segment in held {
        let arrival = max(pipe.nextArrival, network.timeline.now + network.delay())
        pipe.nextArrival = arrival
        network.timeline.at(arrival) { [self] in arrive(segment, at: pipe) }
      }
    }
  }

  // MARK: The service's end

  private func arriveAtService(_ segment: Pipe.Segment) {
    // No answer until the machine is back; then its kernel does not know the connection.
    guard !isServiceGone else { return }
    acknowledge(segment, of: toService)
    guard isServiceOpen else {
      if !segment.isReset { resetPeer() }
      return
    }
    if segment.isReset { return failService(ECONNRESET) }
    toService.arrived.append(contentsOf: segment.bytes)
    if segment.isEnd { toService.endArrived = true }
    loop?.look(at: descriptor)
  }

  private func failService(_ code: Int32) {
    guard isServiceOpen, !isServiceGone, serviceError == nil else { return }
    serviceError = code
    toPeer.held = []
    loop?.look(at: descriptor)
  }

  var isReadable: Bool { toService.unreadBytes > 0 || toService.endArrived || serviceError != nil }
  var isWritable: Bool { toPeer.room > 0 || serviceError != nil }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    let pipe = toService
    guard pipe.unreadBytes > 0 else {
      if let serviceError { return .failed(serviceError) }
      return pipe.endArrived ? .endOfStream : .wouldBlock
    }
    let count = min(buffer.count, pipe.unreadBytes)
    unsafe pipe.arrived.withUnsafeBytes { bytes in
      unsafe buffer.copyMemory(
        from: UnsafeRawBufferPointer(rebasing: bytes[pipe.head..<pipe.head + count]))
    }
    pipe.head += count
    if pipe.head == pipe.arrived.count {
      pipe.arrived.removeAll(keepingCapacity: pipe.arrived.capacity < 65_536)
      pipe.head = 0
    }
    if !backlog.isEmpty || peer?.awaitsRoom == true {
      network.timeline.after(network.delay()) { [self] in
        pushBacklog()
        peer?.linkHasRoom()
      }
    }
    return .bytes(count)
  }

  func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
    if let serviceError { return .failed(serviceError) }
    guard !toPeer.hasEnded else { return .failed(EPIPE) }
    let count = min(bytes.count, toPeer.room)
    if count < bytes.count { wasBlocked = true }
    guard count > 0 else { return .wouldBlock }
    send(
      Pipe.Segment(
        bytes: unsafe Array(bytes[..<count]), wallMilliseconds: host.wallClockMilliseconds),
      into: toPeer)
    return .bytes(count)
  }

  func shutdownWriteOfService() {
    guard isServiceOpen, !toPeer.hasEnded else { return }
    toPeer.hasEnded = true
    send(Pipe.Segment(bytes: [], isEnd: true), into: toPeer)
  }

  /// close(2): with unread bytes, or bytes that arrive later, the kernel sends a reset.
  func closeService(resets: Bool) {
    guard isServiceOpen, !isServiceGone else { return }
    if resets || toService.unreadBytes > 0 {
      resetPeer()
    } else {
      shutdownWriteOfService()
    }
    isServiceOpen = false
    network.closed(self)
  }

  private func resetPeer() {
    guard isPeerOpen else { return }
    toPeer.hasEnded = true
    send(Pipe.Segment(bytes: [], isReset: true), into: toPeer)
  }

  /// The service's machine lost power: its end disappears without notice.
  func loseService() {
    isServiceGone = true
    isServiceOpen = false
    toService.arrived = []
    toService.head = 0
    toPeer.held = []
    network.closed(self)
  }

  /// The service's machine is back: retransmissions to it are answered with a reset.
  func serviceMachineIsBack() {
    guard isServiceGone else { return }
    isServiceGone = false
    if toService.inFlightBytes > 0 { resetPeer() }
  }

  var unacknowledgedByteCount: Int { toPeer.inFlightBytes }

  // MARK: The peer's end

  /// What the peer's kernel takes at once.
  var peerRoom: Int { backlog.isEmpty ? toService.room : 0 }

  private func arriveAtPeer(_ segment: Pipe.Segment) {
    guard !isPeerGone else { return }
    acknowledge(segment, of: toPeer)
    guard isPeerOpen else {
      if !segment.isReset, isServiceOpen {
        send(Pipe.Segment(bytes: [], isReset: true), into: toService)
      }
      return
    }
    if segment.isReset { return failPeer() }
    unreadByPeer.append(segment)
    toPeer.arrived.append(contentsOf: segment.bytes)
    deliverToPeer()
  }

  private func deliverToPeer() {
    let wasFull = toPeer.room == 0
    while isPeerReading, isPeerOpen, !unreadByPeer.isEmpty {
      let segment = unreadByPeer.removeFirst()
      toPeer.arrived.removeFirst(segment.bytes.count)
      if segment.isEnd {
        peer?.linkEnded()
      } else {
        peer?.linkReceived(segment.bytes, wallMilliseconds: segment.wallMilliseconds)
      }
    }
    if wasFull, toPeer.room > 0 {
      network.timeline.after(network.delay()) { [self] in loop?.look(at: descriptor) }
    }
  }

  private func failPeer() {
    guard isPeerOpen, !isPeerGone else { return }
    isPeerOpen = false
    backlog = []
    toService.held = []
    let told = peer
    peer = nil
    told?.linkFailed()
    network.closed(self)
  }

  /// The service could not be reached.
  func refuse() {
    isServiceOpen = false
    failPeer()
  }

  func write(_ bytes: [UInt8]) {
    guard isPeerOpen, !isPeerGone else { return }
    backlog.append(Pipe.Segment(bytes: bytes))
    pushBacklog()
  }

  /// Closes the peer's sending side; the peer still reads.
  func finish() {
    guard isPeerOpen, !isPeerGone else { return }
    backlog.append(Pipe.Segment(bytes: [], isEnd: true))
    pushBacklog()
  }

  private func pushBacklog() {
    while isPeerOpen, !isPeerGone, var first = backlog.first {
      guard first.bytes.isEmpty || toService.room > 0 else { return }
      if first.bytes.count > toService.room {
        let room = toService.room
        let rest = Array(first.bytes[room...])
        first.bytes.removeSubrange(room...)
        backlog[0].bytes = rest
      } else {
        backlog.removeFirst()
      }
      send(first, into: toService)
    }
  }

  /// The peer's program closes its end.
  func closePeer(resets: Bool) {
    guard isPeerOpen, !isPeerGone else { return }
    if resets || !unreadByPeer.isEmpty {
      backlog = []
      send(Pipe.Segment(bytes: [], isReset: true), into: toService)
    } else if !toService.hasEnded {
      finish()
    }
    isPeerOpen = false
    peer = nil
    network.closed(self)
  }

  /// The peer's machine disappears without notice; the service's end stays as it is.
  func losePeer(probed: Bool) {
    guard isPeerOpen, !isPeerGone else { return }
    isPeerGone = true
    peer = nil
    backlog = []
    // The kernel probes a silent peer: see TCPKeepAlive.standard.
    if probed {
      network.timeline.after(seconds: 420) { [self] in failService(ETIMEDOUT) }
    }
    network.closed(self)
  }
}

extension SimulatedLink: SimulatedEnd {
  var userTimeoutMilliseconds: UInt64 {
    get { toPeer.userTimeoutMilliseconds }
    set { toPeer.userTimeoutMilliseconds = newValue }
  }
  var connectError: Int32 { 0 }
  func shutdownWrite() { shutdownWriteOfService() }
  func close(resets: Bool) { closeService(resets: resets) }
}
