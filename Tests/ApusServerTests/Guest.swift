import ApusLoop
import ApusTLS
import ApusTesting

/// A client whose flights are sent on demand.
final class Guest {
  let tcp: RawTCPClient
  let tls: TLSConnection
  private let buffers = TLSBuffers()
  /// What the service sent under the connection's keys.
  private(set) var plaintext: [UInt8] = []
  private(set) var failure: TLSError?

  init(_ address: SocketAddress, _ context: TLSContext) throws {
    tcp = try RawTCPClient(address)
    tls = try TLSConnection(context: context)
    tls.startHandshake(buffers: buffers)
  }

  func sendOutput() throws {
    let output = Array(buffers.output)
    buffers.removeAllOutput()
    if !output.isEmpty { try tcp.send(output) }
  }

  /// Reads the next input; the output waits for `sendOutput`.
  func receive() throws {
    guard case .bytes(let bytes) = try tcp.receive(awaiting: "the service's next flight") else {
      throw RawFault.ended(.endOfStream, awaiting: "the service's next flight")
    }
    bytes.withUnsafeBytes { input in
      tls.provide(input, buffers: buffers)
      while true {
        switch tls.read(buffers: buffers) {
        case .handshakeCompleted: continue
        case .plaintext(let part): plaintext += Array(part)
        case .needsInput, .closedByPeer: return
        case .failed(let error):
          failure = error
          return
        }
      }
    }
  }
}
