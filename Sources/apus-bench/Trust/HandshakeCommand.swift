import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire
import Glibc

/// `apus-bench handshake`: devices that complete the TLS handshake and disconnect, several at a time.
final class HandshakeCommand {
  private let loop = EventLoop(name: "handshake")
  private let memory = BinaryLinkMemory()
  private let address: SocketAddress
  private var identities: [TLSConnectionIdentity] = []
  private let context: TLSContext
  /// The session that each device resumes next.
  private var sessions: [TLSSession?] = []
  private let wanted: Int
  private let resumes: Bool
  private let parallel: Int
  private var links: [Int: HandshakeLink] = [:]
  /// Indices of the links that ended in this turn.
  private var free: [Int]
  private var begun = 0
  private var completed = 0
  private var resumed = 0
  private var cipher = ""
  private var failure: CommandFailure?

  init(_ invocation: Invocation) throws(CommandFailure) {
    do throws(SocketError) {
      address = try SocketAddress(invocation.value(BenchOptions.connect).description)
    } catch {
      throw invocation.failure(about: BenchOptions.connect, "\(error)")
    }
    wanted = invocation.value(BenchOptions.handshakes)
    resumes = invocation.isOn(BenchOptions.resumes)
    let devices = invocation.value(BenchOptions.handshakeDevices)
    parallel = min(8, devices)
    free = Array(0..<parallel)
    var issued: [DeviceConnection.Configuration] = []
    try DeviceIssue(data: invocation.value(BenchOptions.data)).issue(0..<devices, to: address) {
      issued.append($0)
    }
    context = issued[0].context
    identities = issued.compactMap(\.identity)
    sessions = identities.map { _ in nil }
  }

  func run() throws(CommandFailure) {
    var start = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &start)
    loop.onTurnEnd = { [unowned self] in goOn() }
    loop.run()
    if let failure { throw failure }
    var end = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &end)
    let seconds =
      Double(end.tv_sec - start.tv_sec) + Double(end.tv_nsec - start.tv_nsec) / 1e9
    print(
      JSONValue.members([
        "handshakes": .integer(Int64(completed)), "resumed": .integer(Int64(resumed)),
        "microseconds": .integer(Int64(seconds * 1e6)), "cipher": .string(cipher),
      ]).text)
  }

  private func goOn() {
    if failure != nil { return loop.stop() }
    do {
      while begun < wanted, let place = free.popLast() {
        // Each link has its own session, so that no two connections resume the same one at once.
        let device = resumes ? place : begun % identities.count
        links[place] = try HandshakeLink(
          place: place, device: device, context: context, identity: identities[device],
          session: resumes ? sessions[device] : nil, awaitsSession: resumes, to: address,
          loop: loop, memory: memory, owner: self)
        begun += 1
      }
    } catch {
      failure = CommandFailure(.unavailable, "\(error)")
    }
    if completed == wanted || failure != nil { loop.stop() }
  }

  fileprivate func ended(_ link: HandshakeLink, _ problem: String?) {
    links[link.place] = nil
    if let problem { failure = failure ?? CommandFailure(.failed, problem) }
    completed += 1
    if link.isResumed { resumed += 1 }
    cipher = link.cipher
    sessions[link.device] = link.session
    free.append(link.place)
  }
}

/// One connection.
private final class HandshakeLink: SocketHandler {
  let place: Int
  let device: Int
  private unowned let owner: HandshakeCommand
  private let memory: BinaryLinkMemory
  private let socket: Socket
  private let tls: TLSConnection
  private let awaitsSession: Bool
  private var unsent = OutputQueue()
  private var isConnecting = true
  private var isOpen = false
  private var isShut = false
  private var isOver = false

  var isResumed: Bool { tls.isResumed }
  var session: TLSSession? { tls.session }
  var cipher: String { tls.cipherName ?? "?" }

  init(
    place: Int, device: Int, context: TLSContext, identity: TLSConnectionIdentity,
    session: TLSSession?, awaitsSession: Bool,
    to address: SocketAddress, loop: EventLoop, memory: BinaryLinkMemory, owner: HandshakeCommand
  ) throws {
    self.place = place
    self.device = device
    self.owner = owner
    self.memory = memory
    self.awaitsSession = awaitsSession
    tls = try TLSConnection(context: context, session: session)
    try tls.use(identity)
    socket = try Socket.connect(to: address, from: nil, loop: loop)
    socket.handler = self
    socket.setInterest(reading: false, writing: true)
  }

  func socketWritable() {
    if isConnecting {
      let code = socket.connectError()
      guard code == 0 else { return end(unsafe String(cString: strerror(code))) }
      isConnecting = false
      socket.setInterest(reading: true, writing: false)
      tls.startHandshake(buffers: memory.tls)
      return write()
    }
    guard !unsent.isEmpty else { return }
    if case .written = unsent.writeWaiting(to: socket) {
      socket.setInterest(reading: true, writing: false)
      if isShut { socket.shutdownWrite() }
    }
  }

  private func write() {
    guard memory.tls.outputCount > 0 else { return }
    defer { memory.tls.removeAllOutput() }
    if unsafe unsent.write(memory.tls.output, to: socket) == .blocked {
      socket.setInterest(reading: true, writing: true)
    }
  }

  /// Closes the connection once the handshake and, if needed, the session ticket are complete.
  private func leaveIfDone() {
    guard isOpen, !isShut, !awaitsSession || tls.session != nil else { return }
    isShut = true
    tls.close(buffers: memory.tls)
    write()
    if unsent.isEmpty { socket.shutdownWrite() }
  }

  func socketReadable() {
    let input = unsafe memory.input
    switch unsafe socket.read(into: input) {
    case .bytes(let count): unsafe pump(UnsafeRawBufferPointer(rebasing: input[..<count]))
    case .wouldBlock: break
    case .endOfStream: end(isShut ? nil : "the service ended the connection")
    case .failed(let code): end(unsafe String(cString: strerror(code)))
    }
  }

  private func pump(_ input: UnsafeRawBufferPointer) {
    unsafe tls.provide(input, buffers: memory.tls)
    while true {
      switch tls.read(buffers: memory.tls) {
      case .handshakeCompleted: isOpen = true
      case .plaintext: break
      case .needsInput:
        write()
        return leaveIfDone()
      case .closedByPeer:
        write()
        return end(isShut ? nil : "the service closed the connection")
      case .failed(let error):
        write()
        return end("\(error)")
      }
    }
  }

  private func end(_ problem: String?) {
    guard !isOver else { return }
    isOver = true
    socket.close()
    owner.ended(self, problem)
  }
}
