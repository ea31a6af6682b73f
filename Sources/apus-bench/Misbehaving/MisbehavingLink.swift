import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// The connection of a misbehaving device. Confined to its loop.
final class MisbehavingLink: SocketHandler {
  enum Stage: Equatable {
    /// Waits until the given time of the loop's clock.
    case waiting(UInt64)
    case connecting
    case handshaking
    /// Misbehaving.
    case settled
  }

  let tag: Int
  private(set) var stage = Stage.waiting(0)
  private let context: TLSContext
  private let identity: TLSConnectionIdentity?
  private let address: SocketAddress
  private let source: SocketAddress?
  private unowned let owner: MisbehavingFleet
  private var socket: Socket?
  private var tls: TLSConnection?
  private var client = CourierClient(configuration: CourierClient.Configuration())
  /// Plaintext still to be sent.
  private var pending: [UInt8] = []
  private var unsent = OutputQueue()
  private var keepAliveDue: UInt64 = 0

  /// A service accepts one keep-alive per second.
  private static let keepAliveMilliseconds: UInt64 = 1500

  init(
    tag: Int, context: TLSContext, identity: TLSConnectionIdentity?, address: SocketAddress,
    source: SocketAddress?, owner: MisbehavingFleet
  ) {
    self.tag = tag
    self.context = context
    self.identity = identity
    self.address = address
    self.source = source
    self.owner = owner
  }

  var isConnecting: Bool { stage == .connecting || stage == .handshaking }

  // MARK: Beginning and end

  func connect() {
    do {
      let socket = try Socket.connect(to: address, from: source, loop: owner.loop)
      self.socket = socket
      let tls = try TLSConnection(context: context)
      if let identity { try tls.use(identity) }
      self.tls = tls
      stage = .connecting
      socket.handler = self
      socket.setInterest(reading: false, writing: true)
    } catch {
      end()
    }
  }

  private func connected(_ socket: Socket) {
    guard socket.connectError() == 0 else { return end() }
    socket.setInterest(reading: true, writing: false)
    guard owner.how != .halfOpen, let tls else { return stage = .settled }
    stage = .handshaking
    tls.startHandshake(buffers: owner.memory.tls)
    guard owner.how == .handshakeStall else { return flush() }
    let hello = unsafe owner.memory.tls.output
    _ = unsafe socket.write(UnsafeRawBufferPointer(rebasing: hello[..<(hello.count / 2)]))
    owner.memory.tls.removeAllOutput()
    stage = .settled
  }

  private func handshakeCompleted() {
    owner.counts[.handshakes] += 1
    if owner.how == .connectionFlood {
      tls?.close(buffers: owner.memory.tls)
      flush()
      stage = .settled
      return end()
    }
    let now = owner.loop.nowMilliseconds
    client.begin(nowMilliseconds: now, to: &pending)
    client.setTopics(CourierTopics(enabled: [owner.topic]), to: &pending)
    _ = client.requestToken(owner.topic, to: &pending)
    sayAll()
  }

  /// Ends the link, and schedules a retry, or retries at once if the kind of misbehaviour requires it.
  private func end() {
    guard let socket else { return stage = .waiting(owner.retryTime()) }
    let isFlood = owner.how == .connectionFlood && stage == .settled
    owner.counts[stage == .settled ? .disconnections : .failures] += 1
    // With a reset, because otherwise thousands of connections per second would use up all ports.
    socket.abort()
    self.socket = nil
    tls = nil
    client.disconnected()
    pending = []
    unsent.removeAll()
    stage = .waiting(isFlood ? 0 : owner.retryTime())
  }

  func abort() { if socket != nil { end() } }

  // MARK: Writing

  func socketWritable() {
    guard let socket else { return }
    if stage == .connecting { return connected(socket) }
    if case .written = unsent.writeWaiting(to: socket) {
      socket.setInterest(reading: true, writing: false)
    }
  }

  private func flush() {
    let buffers = owner.memory.tls
    guard buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    guard let socket else { return }
    if unsafe unsent.write(buffers.output, to: socket) == .blocked {
      socket.setInterest(reading: true, writing: true)
    }
  }

  /// Sends everything pending, like a well-behaved device.
  private func sayAll() {
    say(pending.count)
  }

  private func say(_ count: Int) {
    guard count > 0, let tls else { return }
    let error = unsafe pending.withUnsafeBytes { bytes -> TLSError? in
      do throws(TLSError) {
        let part = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
        try unsafe tls.write(part, buffers: owner.memory.tls)
        return nil
      } catch {
        return error
      }
    }
    guard error == nil else { return end() }
    pending.removeFirst(count)
    flush()
  }

  /// Sends one byte in a separate record and segment. With nothing pending, it sends keep-alives as often as the
  /// service allows.
  func writeByte() {
    let now = owner.loop.nowMilliseconds
    if pending.isEmpty, now >= keepAliveDue {
      keepAliveDue = now + Self.keepAliveMilliseconds
      CourierKeepAlive(intervalMinutes: 1).encode(to: &pending)
    }
    if unsent.isEmpty, !pending.isEmpty { say(1) }
  }

  // MARK: Reading

  func socketReadable() {
    guard let socket else { return }
    let input = unsafe owner.memory.input
    switch unsafe socket.read(into: input) {
    case .bytes(let count):
      if owner.how == .halfOpen || owner.how == .handshakeStall { return }
      unsafe pump(UnsafeRawBufferPointer(rebasing: input[..<count]))
    case .wouldBlock: break
    case .endOfStream, .failed: end()
    }
  }

  /// Reads a single byte and ignores it.
  func readByte() {
    guard let socket else { return }
    switch unsafe socket.read(
      into: UnsafeMutableRawBufferPointer(rebasing: owner.memory.input[..<1]))
    {
    case .bytes, .wouldBlock: break
    case .endOfStream, .failed: end()
    }
  }

  private func pump(_ input: UnsafeRawBufferPointer) {
    guard let tls else { return }
    let buffers = owner.memory.tls
    unsafe tls.provide(input, buffers: buffers)
    // The link may end during the loop; TLS borrows the input until then.
    while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: handshakeCompleted()
      case .plaintext(let bytes): unsafe received(Span<UInt8>(_unsafeBytes: bytes))
      case .needsInput: return flush()
      case .closedByPeer, .failed:
        flush()
        return end()
      }
    }
  }

  private func received(_ bytes: Span<UInt8>) {
    var offset = 0
    let now = owner.loop.nowMilliseconds
    while socket != nil,
      let event = client.next(bytes, at: &offset, nowMilliseconds: now, to: &pending)
    {
      switch event {
      case .appToken(_, let token): settle(token)
      case .notification(let arrival):
        owner.counts.received(arrival.payload(in: bytes))
        owner.counts[.acknowledged] += 1
        client.acknowledge(arrival.notification.messageID, to: &pending)
      case .refused, .fault, .tokenRefused: return end()
      default: break
      }
    }
    // It behaves well until it has its token, so that notifications arrive.
    if stage != .settled { sayAll() }
  }

  private func settle(_ token: DeviceToken) {
    stage = .settled
    owner.registered(self, token)
    if owner.how == .slowReader { socket?.setInterest(reading: false, writing: false) }
  }
}
