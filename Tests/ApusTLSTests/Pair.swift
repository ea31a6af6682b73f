@testable import ApusTLS

/// One side, with everything that it reported.
final class Side {
  private(set) var connection: TLSConnection
  let buffers: TLSBuffers
  var received: [UInt8] = []
  /// Bytes of each plaintext that was read.
  var recordSizes: [Int] = []
  var completions = 0
  var isClosedByPeer = false
  var failure: TLSError?
  /// Everything sent since it was last emptied.
  var sent: [UInt8] = []
  /// Whether it is compacted as soon as the handshake is completed.
  var compacts = false

  init(_ context: TLSContext, _ buffers: TLSBuffers, session: TLSSession? = nil) throws {
    connection = try TLSConnection(context: context, session: session)
    self.buffers = buffers
  }

  func feed(_ bytes: some Collection<UInt8>) {
    let bytes = Array(bytes)
    bytes.withUnsafeBytes { input in
      connection.provide(input, buffers: buffers)
      while true {
        switch connection.read(buffers: buffers) {
        case .plaintext(let plaintext):
          received.append(contentsOf: plaintext)
          recordSizes.append(plaintext.count)
          continue
        case .handshakeCompleted:
          completions += 1
          if compacts { connection.compact() }
          continue
        case .needsInput: break
        case .closedByPeer: isClosedByPeer = true
        case .failed(let error): failure = error
        }
        break
      }
    }
    sent += takeOutput()
  }

  func start() {
    connection.startHandshake(buffers: buffers)
    sent += takeOutput()
  }

  func write(_ bytes: [UInt8]) throws {
    try bytes.withUnsafeBytes { try connection.write($0, buffers: buffers) }
    sent += takeOutput()
  }

  func close() {
    connection.close(buffers: buffers)
    sent += takeOutput()
  }

  /// Continues the connection from a value; false, changing nothing, if that is not possible now.
  func fallDormantAndWake() -> Bool {
    guard let dormant = connection.dormant() else { return false }
    connection = TLSConnection(dormant, context: connection.context)
    return true
  }

  /// The same with wiped keys.
  func wakeWiped() {
    guard var dormant = connection.dormant() else { return }
    dormant.wipe()
    connection = TLSConnection(dormant, context: connection.context)
  }

  func takeSent() -> [UInt8] {
    defer { sent = [] }
    return sent
  }

  private func takeOutput() -> [UInt8] {
    defer { buffers.removeAllOutput() }
    return Array(buffers.output)
  }
}

/// A client and a server on one worker: they share the buffers, as connections do.
final class Pair {
  let client: Side
  let server: Side
  /// Bytes that arrive at a time.
  let chunk: Int

  init(
    client: TLSContext, server: TLSContext, session: TLSSession? = nil, chunk: Int = .max
  ) throws {
    let buffers = TLSBuffers()
    self.client = try Side(client, buffers, session: session)
    self.server = try Side(server, buffers)
    self.chunk = chunk
  }

  /// A pair after its handshake, successful or not.
  static func connected(
    _ client: TLSClientConfiguration, _ server: TLSServerConfiguration,
    session: TLSSession? = nil, chunk: Int = .max
  ) throws -> Pair {
    let pair = try Pair(
      client: TLSContext(client: client), server: TLSContext(server: server), session: session,
      chunk: chunk)
    pair.client.start()
    pair.exchange()
    return pair
  }

  /// Transfers bytes until neither side has more to send.
  func exchange() {
    while !client.sent.isEmpty || !server.sent.isEmpty {
      carry(client, server)
      carry(server, client)
    }
  }

  private func carry(_ source: Side, _ target: Side) {
    let bytes = source.takeSent()
    var offset = 0
    while offset < bytes.count {
      let end = chunk < bytes.count - offset ? offset + chunk : bytes.count
      target.feed(bytes[offset..<end])
      offset = end
    }
  }
}

extension TestCertificates {
  func serverConfiguration(_ change: (inout TLSServerConfiguration) -> Void = { _ in })
    -> TLSServerConfiguration
  {
    var configuration = TLSServerConfiguration(identity: server)
    change(&configuration)
    return configuration
  }

  func clientConfiguration(_ change: (inout TLSClientConfiguration) -> Void = { _ in })
    -> TLSClientConfiguration
  {
    var configuration = TLSClientConfiguration(
      trustRoots: .authorities(PEM: authority), serverName: "push.example.com")
    change(&configuration)
    return configuration
  }
}

/// Bytes whose period is not a power of two, so that a lost or doubled block shows.
func pattern(_ count: Int, salt: Int = 0) -> [UInt8] {
  (0..<count).map { UInt8(truncatingIfNeeded: ($0 &+ salt) % 251) }
}
