import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// One reading of a list, on its own loop. Confined to that loop, except for `start` and `cancel`.
@safe final class FeedbackReading: SocketHandler, @unchecked Sendable {
  private enum Stage { case idle, connecting, handshaking, reading, over }

  private let configuration: FeedbackConfiguration
  private let context: TLSContext
  private let loop = EventLoop(name: "apns-feedback")
  private let buffers = TLSBuffers()
  private var input = [UInt8](repeating: 0, count: 16_384)
  private var stage = Stage.idle
  private var addresses: [SocketAddress] = []
  private var failures: [LinkFailure] = []
  private var socket: Socket?
  private var tls: TLSConnection?
  private var unsent = OutputQueue()
  private var tuples = FeedbackTupleReader()
  private var entries: [FeedbackEntry] = []
  private var timer: LoopTimer?
  private var completion: ((Result<[FeedbackEntry], FeedbackError>) -> Void)?

  init(_ configuration: FeedbackConfiguration, _ context: TLSContext) {
    self.configuration = configuration
    self.context = context
  }

  /// Starts. `completion` is called once.
  func start(_ completion: @escaping @Sendable (Result<[FeedbackEntry], FeedbackError>) -> Void) {
    self.completion = completion
    loop.start()
    loop.perform { [self] in begin() }
  }

  func cancel() {
    loop.perform { [self] in fail(.cancelled, "") }
  }

  private func begin() {
    guard stage == .idle else { return }
    timer = LoopTimer(loop: loop) { [unowned self] in timeIsOver() }
    let endpoint = configuration.endpoint
    stage = .connecting
    SocketAddress.resolve(host: endpoint.host, port: endpoint.port, on: loop) { [self] result in
      switch result {
      case .success(let found): addresses = found.reversed()
      case .failure(let error): failures.append(LinkFailure(error))
      }
      connectToNext()
    }
  }

  private func connectToNext() {
    guard stage != .over else { return }
    stage = .connecting
    socket?.close()
    unsent.removeAll()
    while let address = addresses.popLast() {
      do {
        let (socket, tls) = (
          try Socket.connect(to: address, loop: loop), try TLSConnection(context: context)
        )
        socket.handler = self
        socket.setInterest(reading: false, writing: true)
        (self.socket, self.tls) = (socket, tls)
        return wait(seconds: configuration.connectTimeoutSeconds)
      } catch {
        failures.append(LinkFailure("\(error)"))
      }
    }
    fail(
      .connectionFailed, LinkFailure.sum(of: failures, host: configuration.endpoint.host).text)
  }

  // MARK: Time

  private func wait(seconds: Int) {
    timer?.start(afterMilliseconds: UInt64(seconds) * 1000)
  }

  private func timeIsOver() {
    switch stage {
    case .connecting, .handshaking: tryNext("the service took too long to answer")
    case .reading: fail(.timedOut, "the service stopped sending")
    case .idle, .over: break
    }
  }

  private func tryNext(_ text: String) {
    failures.append(LinkFailure(text))
    connectToNext()
  }

  // MARK: Bytes

  func socketWritable() {
    guard let socket, let tls else { return }
    if stage == .connecting {
      let code = socket.connectError()
      guard code == 0 else { return tryNext(errorText(code)) }
      stage = .handshaking
      tls.startHandshake(buffers: buffers)
      writeOutput()
    } else {
      _ = unsent.writeWaiting(to: socket)
    }
    socket.setInterest(reading: true, writing: !unsent.isEmpty)
  }

  private func writeOutput() {
    guard buffers.outputCount > 0, let socket else { return }
    _ = unsafe unsent.write(buffers.output, to: socket)
    buffers.removeAllOutput()
    socket.setInterest(reading: true, writing: !unsent.isEmpty)
  }

  func socketReadable() {
    while stage == .handshaking || stage == .reading, let socket {
      switch unsafe input.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
      case .bytes(let count):
        let ciphertext = input
        unsafe ciphertext.withUnsafeBytes { bytes in
          unsafe pump(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
      case .wouldBlock: return
      case .endOfStream: broken("the service closed the connection without close_notify")
      case .failed(let code): broken(errorText(code))
      }
    }
  }

  private func pump(_ bytes: UnsafeRawBufferPointer) {
    guard let tls else { return }
    unsafe tls.provide(bytes, buffers: buffers)
    while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: stage = .reading
      case .plaintext(let bytes):
        wait(seconds: configuration.silenceTimeoutSeconds)
        unsafe take(Span(_unsafeBytes: bytes))
      case .needsInput: return writeOutput()
      case .closedByPeer: return listEnded()
      case .failed(let error):
        writeOutput()
        // Under TLS 1.3 the service checks the certificate after this side has finished the handshake.
        if case .alertReceived = error, entries.isEmpty {
          return fail(.connectionFailed, "the service refused the connection: \(error)")
        }
        return broken("\(error)")
      }
    }
  }

  private func take(_ bytes: Span<UInt8>) {
    guard stage == .reading else { return }
    var offset = 0
    do throws(FeedbackTupleFault) {
      while let tuple = try tuples.next(bytes, at: &offset) {
        let token = String(decoding: Hex.encode(tuple.token.span), as: UTF8.self)
        entries.append(FeedbackEntry(token: token, timeSeconds: Int64(tuple.timeSeconds)))
      }
    } catch {
      fail(.notUnderstood, "\(error)")
    }
  }

  private func broken(_ text: String) {
    if stage == .reading { fail(.incomplete, text) } else { tryNext(text) }
  }

  // MARK: The end

  /// After close_notify the list is complete, unless it ends inside an entry. Our close_notify confirms it to the
  /// service.
  private func listEnded() {
    guard stage == .reading else { return }
    do throws(FeedbackTupleFault) { try tuples.finish() } catch {
      return fail(.incomplete, "\(error)")
    }
    tls?.close(buffers: buffers)
    writeOutput()
    socket?.close()
    finish(.success(entries))
  }

  private func fail(_ code: FeedbackError.Code, _ detail: String) {
    guard stage != .over else { return }
    // A reset tells the service that the list was not received.
    socket?.abort()
    finish(.failure(FeedbackError(code, detail, entries)))
  }

  private func finish(_ result: Result<[FeedbackEntry], FeedbackError>) {
    stage = .over
    timer?.close()
    timer = nil
    (socket, tls) = (nil, nil)
    let completion = completion.take()
    completion?(result)
    loop.stop()
  }
}
