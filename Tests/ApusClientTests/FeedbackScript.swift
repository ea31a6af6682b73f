import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import ApusTrust
import Synchronization

@testable import ApusClient

/// A feedback service that writes given bytes to its only reader, ends as configured, and records how the reader ends.
final class FeedbackScript: @unchecked Sendable {
  enum End: Sendable, Equatable {
    case closeNotify
    /// End of stream without close_notify.
    case fin
    /// A reset, or another failure of the connection.
    case failed
    /// The connection stays open.
    case nothing
  }

  let authorityPEM: [UInt8]
  let credential: ClientConfiguration.Credential
  private(set) var port: UInt16 = 0
  /// How the reader ended.
  var end: End { state.withLock { $0.end } }

  private struct State {
    var end = End.nothing
    var waiter: CheckedContinuation<Void, Never>?
  }
  private let state = Mutex(State())
  private let loop = EventLoop(name: "feedback")
  private var listener: Listener?
  private var connection: FeedbackScriptConnection?

  init(_ bytes: [UInt8], recordBytes: Int, _ end: End) throws {
    let now = EventLoop.wallClockMilliseconds() / 1000
    let validity = Validity(now: now, days: 1)
    let authority = try CertificateAuthority.create(commonName: "Scripted", validity: validity)
    authorityPEM = Array(authority.certificate.pem.utf8)
    let (serverKey, clientKey) = (try PrivateKey.generateP256(), try PrivateKey.generateP256())
    let client = try authority.issueProvider(
      ProviderCertificateRequest(
        bundleID: "com.example.app", teamID: "TEAM123456", environments: .both, topics: nil,
        publicKey: clientKey.publicKey, validity: validity))
    credential = .certificate(
      certificatePEM: Array(client.pem.utf8), keyPEM: Array(clientKey.pkcs8PEM.utf8))
    let server = try authority.issueServer(
      names: ["127.0.0.1"], publicKey: serverKey.publicKey, validity: validity)
    let context = try TLSContext(
      server: TLSServerConfiguration(
        identity: TLSIdentity(server, serverKey),
        clientCertificates: .required(authoritiesPEM: authorityPEM), sessionTickets: false))
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
      [weak self, loop] descriptor, _ in
      guard let self, let socket = try? Socket(adopting: descriptor, loop: loop),
        let tls = try? TLSConnection(context: context)
      else { return }
      connection = FeedbackScriptConnection(
        socket, tls, bytes, recordBytes: recordBytes, end
      ) { [weak self] in
        self?.ended($0)
      }
    }
    self.listener = listener
    port = listener.localAddress?.port ?? 0
    loop.start()
  }

  deinit { loop.stop() }

  private func ended(_ end: End) {
    let waiter = state.withLock { state in
      if state.end == .nothing { state.end = end }
      return state.waiter.take()
    }
    waiter?.resume()
  }

  /// Waits until the reader has ended.
  func awaitEnd() async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        guard state.end == .nothing else { return true }
        state.waiter = continuation
        return false
      }
      if isOver { continuation.resume() }
    }
  }
}

private final class FeedbackScriptConnection: SocketHandler {
  private let socket: Socket
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private let bytes: [UInt8]
  private let recordBytes: Int
  private let end: FeedbackScript.End
  private let onEnd: (FeedbackScript.End) -> Void
  private var room = [UInt8](repeating: 0, count: 16_384)

  init(
    _ socket: Socket, _ tls: TLSConnection, _ bytes: [UInt8], recordBytes: Int,
    _ end: FeedbackScript.End, onEnd: @escaping (FeedbackScript.End) -> Void
  ) {
    self.socket = socket
    self.tls = tls
    self.bytes = bytes
    self.recordBytes = recordBytes
    self.end = end
    self.onEnd = onEnd
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func socketWritable() {}

  func socketReadable() {
    let result = room.withUnsafeMutableBytes { socket.read(into: $0) }
    switch result {
    case .bytes(let count):
      room.withUnsafeBytes { bytes in
        tls.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
      }
      pump()
    case .wouldBlock: break
    case .endOfStream: finish(.fin)
    case .failed: finish(.failed)
    }
  }

  private func pump() {
    while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: tell()
      case .plaintext: break
      case .needsInput: return writeOutput()
      case .closedByPeer: return finish(.closeNotify)
      case .failed: return finish(.failed)
      }
    }
  }

  private func tell() {
    for start in stride(from: 0, to: bytes.count, by: recordBytes) {
      let record = Array(bytes[start..<min(start + recordBytes, bytes.count)])
      record.withUnsafeBytes { try? tls.write($0, buffers: buffers) }
      writeOutput()
    }
    switch end {
    case .closeNotify:
      tls.close(buffers: buffers)
      writeOutput()
    case .fin: writeOutput()
    case .failed, .nothing: return
    }
    socket.shutdownWrite()
  }

  private func writeOutput() {
    guard buffers.outputCount > 0 else { return }
    _ = socket.write(buffers.output)
    buffers.removeAllOutput()
  }

  private func finish(_ end: FeedbackScript.End) {
    socket.close()
    onEnd(end)
  }
}
