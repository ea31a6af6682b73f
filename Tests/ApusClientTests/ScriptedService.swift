import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import Synchronization

@testable import ApusClient

/// A service on real sockets that follows a script.
final class ScriptedService: @unchecked Sendable {
  enum Action: Sendable {
    /// Answers 200.
    case accept
    /// RST_STREAM with REFUSED_STREAM.
    case refuse
    /// GOAWAY below this stream, then the end of the connection.
    case goAway
    /// The end of the connection without further output.
    case cut
    /// Nothing.
    case ignore
    /// FIN without an answer, GOAWAY or close_notify; it still reads.
    case halfClose
    /// These frames, given the stream.
    case frames(@Sendable (UInt8) -> [UInt8])
    /// An answer, and then the same.
    case acceptAndHalfClose
  }

  /// When to half-close a connection before the first request.
  enum EarlyEnd: Sendable, CaseIterable {
    /// Before the answer to the ClientHello.
    case beforeHandshake
    /// After the handshake, without SETTINGS.
    case beforeSettings
  }

  /// By connection, then by request on it; requests beyond the script are accepted.
  let script: [[Action]]
  /// By connection; nil: no early end.
  private let earlyEnds: [EarlyEnd?]
  let authorityPEM: [UInt8]
  /// The `apns-id`s or `apns-request-id`s of the requests, by connection.
  var seen: [[String]] { requests.withLock { $0.map { $0.map(\.id) } } }
  /// Their methods and paths.
  var lines: [[String]] { requests.withLock { $0.map { $0.map(\.line) } } }
  private let requests = Mutex<[[(id: String, line: String)]]>([])
  private(set) var port: UInt16 = 0

  private let loop = EventLoop(name: "scripted")
  private let context: TLSContext
  private var listener: Listener?
  private var connections: [ScriptedConnection] = []

  /// - Parameter validity: Of the service's certificate; nil: valid today.
  init(
    _ script: [[Action]], earlyEnds: [EarlyEnd?] = [], applicationProtocols: [String] = ["h2"],
    validity: Validity? = nil
  ) throws {
    self.script = script
    self.earlyEnds = earlyEnds
    let now = EventLoop.wallClockMilliseconds() / 1000
    let authority = try CertificateAuthority.create(
      commonName: "Scripted", validity: Validity(now: now, days: 1))
    authorityPEM = Array(authority.certificate.pem.utf8)
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueServer(
      names: ["127.0.0.1"], publicKey: key.publicKey,
      validity: validity ?? Validity(now: now, days: 1))
    context = try TLSContext(
      server: TLSServerConfiguration(
        identity: TLSIdentity(
          certificateChainPEM: Array(certificate.pem.utf8),
          privateKeyPEM: Array(key.pkcs8PEM.utf8)),
        applicationProtocols: applicationProtocols))
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
      [weak self] descriptor, _ in self?.accept(descriptor)
    }
    self.listener = listener
    port = listener.localAddress?.port ?? 0
    loop.start()
  }

  deinit { loop.stop() }

  func client(
    timeoutSeconds: Int = 30, _ change: (inout ClientConfiguration) -> Void = { _ in }
  ) throws -> APNSClient {
    var configuration = try configuration()
    configuration.sendTimeoutSeconds = timeoutSeconds
    change(&configuration)
    return try APNSClient(configuration)
  }

  func configuration() throws -> ClientConfiguration {
    ClientConfiguration(
      endpoint: Endpoint(host: "127.0.0.1", port: port), trustRoots: .pem(authorityPEM),
      credential: .providerToken(
        keyPEM: Array(try PrivateKey.generateP256().pkcs8PEM.utf8), keyID: "ABCDE12345",
        teamID: "TEAM123456"))
  }

  private func accept(_ descriptor: Int32) {
    let index = requests.withLock { seen in
      seen.append([])
      return seen.count - 1
    }
    guard
      let connection = try? ScriptedConnection(
        Socket(adopting: descriptor, loop: loop), TLSConnection(context: context),
        actions: index < script.count ? script[index] : [],
        earlyEnd: index < earlyEnds.count ? earlyEnds[index] : nil,
        onRequest: { [weak self] id, line in
          self?.requests.withLock { $0[index].append((id, line)) }
        })
    else { return }
    connections.append(connection)
  }
}

private final class ScriptedConnection: SocketHandler {
  private let socket: Socket
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private let session = HTTP2ServerSession(
    configuration: .trusted, pool: HTTP2RequestPool(), nowMilliseconds: 0)
  private var actions: [ScriptedService.Action]
  private let onRequest: (String, String) -> Void
  private var output: [UInt8] = []
  private var input = [UInt8](repeating: 0, count: 65_536)
  private var isEnding = false
  private let earlyEnd: ScriptedService.EarlyEnd?
  /// Whether it has sent everything, and only reads.
  private var isHalfClosed = false

  init(
    _ socket: Socket, _ tls: TLSConnection, actions: [ScriptedService.Action],
    earlyEnd: ScriptedService.EarlyEnd?, onRequest: @escaping (String, String) -> Void
  ) {
    self.socket = socket
    self.tls = tls
    self.actions = actions.reversed()
    self.earlyEnd = earlyEnd
    self.onRequest = onRequest
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func socketWritable() {}

  func socketReadable() {
    let count = input.withUnsafeMutableBytes { buffer -> Int in
      if case .bytes(let count) = socket.read(into: buffer) { count } else { 0 }
    }
    guard count > 0 else { return socket.close() }
    if isHalfClosed { return }
    if earlyEnd == .beforeHandshake { return halfClose() }
    input.withUnsafeBytes { bytes in
      tls.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
    }
    reading: while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted:
        guard earlyEnd == .beforeSettings else { break }
        // The rest of the handshake, without HTTP/2.
        _ = socket.write(buffers.output)
        buffers.removeAllOutput()
        return halfClose()
      case .plaintext(let bytes): _ = session.receive(bytes, nowMilliseconds: 0)
      case .needsInput: break reading
      case .closedByPeer, .failed: return socket.close()
      }
    }
    while let request = session.nextRequest() { answer(request) }
    write()
  }

  private func answer(_ request: HTTP2Request) {
    let fields = request.fields
    let idName = fields.contains(.apnsID) ? HeaderName.apnsID : .apnsRequestID
    onRequest(
      fields.value(idName).text, "\(fields.value(.method).text) \(fields.value(.path).text)")
    let stream = UInt8(truncatingIfNeeded: request.streamID)
    let nothing: [UInt8] = []
    switch actions.popLast() ?? .accept {
    case .accept:
      session.respond(
        streamID: request.streamID, status: 200, apnsID: fields.value(.apnsID),
        apnsUniqueID: nothing.span, body: nothing.span)
    case .refuse: output += Frames.reset(stream, code: 7)
    case .frames(let frames): output += frames(stream)
    case .goAway:
      output += Frames.goAway(last: stream - 2)
      isEnding = true
    case .cut: socket.close()
    case .ignore: break
    case .halfClose: isHalfClosed = true
    case .acceptAndHalfClose:
      session.respond(
        streamID: request.streamID, status: 200, apnsID: fields.value(.apnsID),
        apnsUniqueID: nothing.span, body: nothing.span)
      isHalfClosed = true
    }
    session.release(request)
  }

  private func halfClose() {
    isHalfClosed = true
    socket.shutdownWrite()
  }

  private func write() {
    guard socket.isOpen else { return }
    if tls.isEstablished {
      var bytes: [UInt8] = []
      session.pendingOutput(into: &bytes, limit: .max)
      bytes += output
      output = []
      bytes.withUnsafeBytes { try? tls.write($0, buffers: buffers) }
      if isEnding { tls.close(buffers: buffers) }
    }
    _ = socket.write(buffers.output)
    buffers.removeAllOutput()
    if isEnding || isHalfClosed { socket.shutdownWrite() }
  }
}
