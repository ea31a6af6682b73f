import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// One connection of a scripted gateway. Confined to its loop.
final class ScriptedGatewayConnection: SocketHandler {
  private let socket: Socket
  private let tls: TLSConnection
  /// Nil once its test is over.
  private weak var gateway: ScriptedGateway?
  private let options: ScriptedGateway.Options
  private let buffers = TLSBuffers()
  private var room = [UInt8](repeating: 0, count: 65_536)
  /// The remaining actions, the next one last.
  private var actions: [GatewayAction]
  /// Received bytes that are not processed yet.
  private var input: [UInt8] = []
  private var lastTaken: UInt32 = 0
  private var timer: LoopTimer?
  /// It sends nothing more, and discards what arrives.
  private var isDeaf = false

  private static let limits = BinaryFrameLimits(tokenBytes: 1...100)

  init(
    _ socket: Socket, _ tls: TLSConnection, _ actions: [GatewayAction], gateway: ScriptedGateway
  ) {
    self.socket = socket
    self.tls = tls
    self.actions = actions.reversed()
    self.gateway = gateway
    options = gateway.options
    socket.handler = self
    timer = LoopTimer(loop: socket.loop) { [unowned self] in goOn() }
    let pause = options.handshakePauseMilliseconds
    if pause > 0 { timer?.start(afterMilliseconds: pause) } else { goOn() }
  }

  private func goOn() {
    socket.setInterest(reading: true, writing: false)
    act()
  }

  // MARK: Bytes

  func socketWritable() {}

  func socketReadable() {
    let count = unsafe room.withUnsafeMutableBytes { buffer -> Int in
      if case .bytes(let count) = unsafe socket.read(into: buffer) { count } else { 0 }
    }
    guard count > 0 else { return socket.close() }
    unsafe room.withUnsafeBytes { bytes in
      unsafe tls.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
    }
    reading: while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: break
      case .plaintext(let bytes): if !isDeaf { unsafe input.append(contentsOf: bytes) }
      case .needsInput: break reading
      case .closedByPeer:
        writeOutput()
        return socket.close()
      case .failed:
        writeOutput()
        return socket.close()
      }
    }
    writeOutput()
    act()
  }

  private func say(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { bytes in try? unsafe tls.write(bytes, buffers: buffers) }
    writeOutput()
  }

  private func writeOutput() {
    guard buffers.outputCount > 0, socket.isOpen else { return }
    _ = unsafe socket.write(buffers.output)
    buffers.removeAllOutput()
  }

  // MARK: Actions

  /// Performs the actions that are possible now.
  private func act() {
    guard tls.isEstablished else { return }
    while socket.isOpen, !isDeaf, timer?.isActive != true {
      guard let action = actions.last else {
        guard takeNext() else { return }
        continue
      }
      if case .take(let count) = action {
        if count > 0 {
          guard takeNext() else { return }
          actions[actions.count - 1] = .take(count - 1)
        } else {
          actions.removeLast()
        }
        continue
      }
      guard !action.needsFrame || frame() != nil else { return answerProbe() }
      actions.removeLast()
      perform(action)
    }
  }

  private func perform(_ action: GatewayAction) {
    switch action {
    case .take: break
    case .say(let status, let named, let isSplit, let times):
      var packet = BinaryErrorPacket(status: .unknown, identifier: number(named))
      packet.status = status
      var bytes: [UInt8] = []
      for _ in 0..<times { packet.append(to: &bytes) }
      if isSplit { for byte in bytes { say([byte]) } } else { say(bytes) }
      finish()
    case .babble(let bytes):
      say(bytes)
      finish()
    case .eatPacket:
      refuseNext()
      abort()
    case .takeAndReset:
      _ = takeNext()
      abort()
    case .reset: abort()
    case .halfClose:
      isDeaf = true
      socket.shutdownWrite()
    case .close: finish()
    case .stall:
      isDeaf = true
      socket.setInterest(reading: false, writing: false)
    case .pause(let milliseconds):
      socket.setInterest(reading: false, writing: false)
      timer?.start(afterMilliseconds: milliseconds)
    }
  }

  private func number(_ named: GatewayAction.Named) -> UInt32 {
    switch named {
    case .next:
      let identifier = frame()?.identifier ?? 0
      refuseNext()
      return identifier
    case .last: return lastTaken
    case .number(let number): return number
    }
  }

  private func finish() {
    isDeaf = true
    tls.close(buffers: buffers)
    writeOutput()
    socket.shutdownWrite()
  }

  private func abort() {
    isDeaf = true
    socket.abort()
  }

  // MARK: Frames

  /// What the received bytes start with.
  private func scan() -> BinaryScan? {
    let bytes = input
    return bytes.isEmpty ? nil : BinaryFrame.scan(bytes.span, limits: Self.limits)
  }

  /// The next complete notification, if there is one.
  private func frame() -> BinaryFrame? {
    if case .frame(let frame) = scan() { frame } else { nil }
  }

  private func take(_ frame: BinaryFrame) -> String {
    defer { input.removeFirst(frame.byteCount) }
    return String(decoding: input[frame.payload], as: UTF8.self)
  }

  /// False if there is none.
  private func takeNext() -> Bool {
    guard let frame = frame() else {
      answerProbe()
      return false
    }
    let payload = take(frame)
    gateway?.updateAccount { $0.taken.append(payload) }
    lastTaken = frame.identifier ?? lastTaken
    if options.confirms {
      var bytes: [UInt8] = []
      BinaryErrorPacket(status: .noError, identifier: lastTaken).append(to: &bytes)
      say(bytes)
    }
    return true
  }

  private func refuseNext() {
    guard let frame = frame() else { return }
    let payload = take(frame)
    gateway?.updateAccount { $0.refused.append(payload) }
  }

  /// The bytes may deliberately not be a notification.
  private func answerProbe() {
    guard !options.ignoresProbes, case .fault(let fault, _, let identifier) = scan() else {
      return
    }
    var bytes: [UInt8] = []
    BinaryErrorPacket(status: fault.status, identifier: identifier ?? 0).append(to: &bytes)
    say(bytes)
    finish()
  }
}
