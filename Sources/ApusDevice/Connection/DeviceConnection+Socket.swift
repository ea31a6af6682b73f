import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

// From an address to the connect message, then reading and writing.

extension DeviceConnection {
  private static let readsPerTurn = 4
  /// Milliseconds that sent bytes may stay unacknowledged by the peer's system.
  private static let userTimeoutMilliseconds = Limits.writeStallSeconds * 1000
  /// Seconds of silence after which the system probes a peer, if the client sends no keep-alives itself.
  private static let probeIdleSeconds = 900

  // MARK: Connecting

  /// Starts a connection attempt.
  func attempt() {
    stageDeadline = nil
    switch endpoint {
    case .addresses(let addresses): connect(toOneOf: addresses)
    case .host(let host, let port):
      stage = .resolving
      lookup += 1
      let expected = lookup
      SocketAddress.resolve(host: host, port: port, on: shared.loop) { [weak self] result in
        guard let self, stage == .resolving, lookup == expected else { return }
        shared.turn(self) {
          switch result {
          case .success(let addresses): connect(toOneOf: addresses)
          case .failure(let error): end(.unreachable(error))
          }
        }
      }
    }
  }

  private var hostName: String {
    if case .host(let name, _) = endpoint { name } else { "" }
  }

  private func connect(toOneOf addresses: [SocketAddress]) {
    untried = addresses.reversed()
    connectNext(after: .unreachable(.unresolved(host: hostName, reason: "it has no address")))
  }

  /// Tries the next address; if there is none left, ends with `failure`.
  private func connectNext(after failure: DeviceDisconnection) {
    stage = .connecting
    var failure = failure
    while let address = untried.popLast() {
      do {
        let socket = try Socket.connect(
          to: address, from: configuration.source, loop: shared.loop)
        let tls = try TLSConnection(context: configuration.context, session: offeredSession)
        if let name = alternative?.serverName { try tls.use(serverName: name) }
        if let identity = configuration.identity { try tls.use(identity) }
        transport = Transport(socket: socket, tls: tls, address: address, loop: shared.loop)
        socket.handler = self
        socket.setInterest(reading: false, writing: true)
        stageDeadline = now + UInt64(Limits.handshakeSeconds) * 1000
        return
      } catch let error as SocketError {
        failure = .unreachable(error)
      } catch let error as TLSError {
        failure = .tls(error)
      } catch {
        preconditionFailure("only two kinds of error are thrown here")
      }
    }
    end(failure)
  }

  /// The connection to this address failed.
  func addressFailed(_ failure: DeviceDisconnection) {
    transport?.socket.close()
    transport = nil
    connectNext(after: failure)
  }

  private func connected() {
    guard let transport else { return }
    let socket = transport.socket
    let code = socket.connectError()
    guard code == 0 else {
      return addressFailed(.unreachable(.system(.connect, code: code, transport.address)))
    }
    setSocketKeepAlive(socket)
    socket.setUserTimeout(milliseconds: Self.userTimeoutMilliseconds)
    stage = .handshaking
    stageDeadline = now + UInt64(Limits.handshakeSeconds) * 1000
    socket.setInterest(reading: true, writing: false)
    transport.tls.startHandshake(buffers: shared.tlsBuffers)
    write(transport)
  }

  /// The system's own probes come no sooner than the client's keep-alives, and so cost nothing.
  func setSocketKeepAlive(_ socket: Socket) {
    let keepAlive = Int(clamping: client.configuration.keepAliveMilliseconds / 1000)
    socket.setKeepAlive(idleSeconds: keepAlive > 0 ? keepAlive : Self.probeIdleSeconds)
  }

  private func established(_ tls: TLSConnection) {
    let client = configuration.client
    guard tls.negotiatedProtocol == "\(client.dialect.name)" else { return end(.otherProtocol) }
    stage = .open
    stageDeadline = nil
    isResumed = tls.isResumed
    if configuration.identity != nil { tls.dropIdentity() }
    do throws(TrustFault) {
      let proof = try configuration.inBandIdentity.map { identity throws(TrustFault) in
        let milliseconds = EventLoop.wallClockMilliseconds() + clockOffsetMilliseconds
        return try CourierProof(
          certificateDER: identity.certificateDER, key: identity.key,
          milliseconds: UInt64(max(0, milliseconds)), random: randomBytes(8))
      }
      self.client.begin(proof: proof, nowMilliseconds: now, to: &pending)
    } catch {
      end(.proof(error))
    }
  }

  // MARK: Reading

  package func socketReadable() {
    shared.turn(self) {
      if stage == .lingering { return discardInput() }
      for _ in 0..<Self.readsPerTurn {
        guard stage == .handshaking || stage == .open, let transport else { return }
        let buffer = unsafe shared.receiveBuffer
        switch unsafe transport.socket.read(into: buffer) {
        case .bytes(let count):
          unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]), transport)
          if count < buffer.count { return }
        case .wouldBlock: return
        case .endOfStream: return end(.tls(.truncated))
        case .failed(let code): return end(.transport(code))
        }
      }
    }
  }

  /// Decrypts `input` to its end, even if the connection ends earlier, because TLS borrows it.
  private func pump(_ input: UnsafeRawBufferPointer, _ transport: Transport) {
    let buffers = shared.tlsBuffers
    unsafe transport.tls.provide(input, buffers: buffers)
    while true {
      switch transport.tls.read(buffers: buffers) {
      case .handshakeCompleted: if stage == .handshaking { established(transport.tls) }
      case .plaintext(let bytes): unsafe received(bytes)
      case .needsInput:
        // Pending frames carry it along: the end of the handshake and the connect message share one segment.
        if pending.isEmpty { write(transport) }
        if mayCompact {
          mayCompact = false
          transport.tls.compact()
        }
        return
      case .closedByPeer: return end(.closed)
      case .failed(let error):
        write(transport)
        return end(.tls(error))
      }
    }
  }

  private func received(_ bytes: UnsafeRawBufferPointer) {
    guard unsafe !bytes.isEmpty else { return }
    let input = unsafe Span<UInt8>(_unsafeBytes: bytes)
    var offset = 0
    defer {
      if let silence = client.takeAnsweredSilence() {
        isVerifying = false
        delegate?.deviceConnection(self, answeredAfterMilliseconds: silence)
      }
    }
    while stage == .open,
      let event = client.next(input, at: &offset, nowMilliseconds: now, to: &pending)
    {
      guard case .notification(let arrival) = event else {
        handle(event)
        continue
      }
      let verdict = delegate?.deviceConnection(
        self, received: arrival.notification, payload: arrival.payload(in: input),
        collapseID: arrival.collapseID(in: input), channelID: arrival.channelID(in: input))
      switch verdict ?? .decline {
      case .acknowledge: client.acknowledge(arrival.notification.messageID, to: &pending)
      case .hold: break
      case .decline: client.decline(arrival.notification.messageID)
      }
    }
  }

  /// Handles any event except a notification.
  func handle(_ event: CourierClientEvent) {
    switch event {
    case .connected(let token, let milliseconds, let isNew, let place):
      connectedAtMilliseconds = now
      addressAnswered()
      follow(place)
      mayCompact = true
      renewal?.connected(serverMilliseconds: milliseconds, nowMilliseconds: now)
      delegate?.deviceConnection(
        self, connectedAs: token, isNewToken: isNew, serverMilliseconds: milliseconds)
    case .refused(let refusal):
      addressAnswered()
      if let time = refusal.badNonceServerMilliseconds {
        clockOffsetMilliseconds = Int64(clamping: time) - EventLoop.wallClockMilliseconds()
      }
      end(.refused(refusal))
    case .issued(let issuance):
      addressAnswered()
      minimumWaitMilliseconds = delegate?.deviceConnection(self, issued: issuance) ?? 0
      end(.closed)
    case .renewal(let issuance): renewed(issuance)
    case .renewalAdvised(let seconds):
      renewal?.advised(withinSeconds: seconds, nowMilliseconds: now)
    case .appToken(let topic, let token):
      delegate?.deviceConnection(self, appToken: token, for: topic)
    case .tokenRefused(let topic, _):
      delegate?.deviceConnection(self, appToken: nil, for: topic)
    case .notification: preconditionFailure("notifications are handled where their bytes are")
    case .subscriptions(let confirmation):
      delegate?.deviceConnection(self, confirmed: confirmation)
    case .noStorage: delegate?.deviceConnectionFoundNothingStored(self)
    case .goodbye(let reason, let milliseconds):
      goodbye = reason
      reconnectMilliseconds = milliseconds.map(UInt64.init)
    case .fault(let fault): end(.fault(fault))
    }
  }

  private func discardInput() {
    guard let transport else { return }
    for _ in 0..<Self.readsPerTurn {
      switch unsafe transport.socket.read(into: shared.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream, .failed: return end(.stopped)
      }
    }
  }

  // MARK: Writing

  package func socketWritable() {
    shared.turn(self) {
      guard let transport else { return }
      if stage == .connecting { return connected() }
      if case .failed(let code) = transport.writeUnsent() { end(.transport(code)) }
    }
  }

  private func write(_ transport: Transport) {
    if case .failed(let code) = transport.writeOutput(shared.tlsBuffers) { end(.transport(code)) }
  }

  /// Encrypts and sends the frames of this turn.
  func sendPending() {
    guard stage == .open, let transport, !pending.isEmpty else { return }
    defer { pending.removeAll(keepingCapacity: true) }
    do {
      try unsafe pending.withUnsafeBytes { bytes in
        try unsafe transport.tls.write(bytes, buffers: shared.tlsBuffers)
      }
      write(transport)
    } catch {
      end(.tls(error as? TLSError ?? .notWritable))
    }
  }
}
