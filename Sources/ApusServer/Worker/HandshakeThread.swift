import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// Takes the steps of a worker's TLS handshakes, on a thread of its own with a lower priority.
///
/// A step costs half a millisecond, hundreds of times what a notification costs. On the worker's own thread all
/// connections would wait for it, and a stranger who sends nothing but first flights could delay every push. Here the
/// system lets the worker go first, and gives the handshakes what it leaves, but at least a share.
final class HandshakeThread: Sendable {
  private let loop: EventLoop
  private let waiting: Inbox<HandshakeStep>

  /// - Parameter results: Gets each step when it was taken.
  init(index: Int, results: Inbox<HandshakeStep>) {
    let loop = EventLoop(name: "apus-tls-\(index)")
    let buffers = TLSBuffers()
    waiting = Inbox(loop: loop, capacity: 2 * Limits.handshakesAtOnce) { steps in
      for var step in steps {
        step.take(buffers)
        _ = results.send(step)
      }
    }
    self.loop = loop
  }

  func start() {
    loop.start()
    loop.perform {
      Scheduling.giveWay(steps: Limits.handshakeNiceness)
      // Without them the system lets a step go on when the worker has something to do.
      Scheduling.preferShortSlices()
    }
  }

  func begin(_ step: HandshakeStep) { _ = waiting.send(step) }

  func stop() {
    loop.stop()
    loop.join()
  }
}

/// A step of a TLS handshake: what has come of the peer's flight, and what follows from it.
///
/// Unchecked: the TLS connection belongs to the holder of the step. Its worker leaves it alone until the step is back.
struct HandshakeStep: @unchecked Sendable {
  enum Outcome {
    case needsInput
    case completed
    case failed(TLSError)
  }

  let connection: DeadlineWheel.Entry
  let tls: TLSConnection
  /// Ciphertext of the peer. When the step was taken, the part that came after the handshake.
  var input: [UInt8]
  /// Ciphertext for the peer.
  private(set) var output: [UInt8] = []
  private(set) var outcome = Outcome.needsInput
  /// Whose certificate it was that ended the handshake.
  private(set) var rejected: RejectedCertificate?

  init(_ connection: Connection, _ input: [UInt8]) {
    self.connection = connection.entry
    tls = connection.tls
    self.input = input
  }

  mutating func take(_ buffers: TLSBuffers) {
    var rest: [UInt8] = []
    unsafe input.withUnsafeBytes { bytes in
      unsafe tls.provide(bytes, buffers: buffers)
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted:
        outcome = .completed
        rest = buffers.takeInput()
      // There is no plaintext and no regular end before the handshake is completed.
      case .needsInput, .plaintext: break
      case .closedByPeer: outcome = .failed(.truncated)
      case .failed(let error):
        outcome = .failed(error)
        rejected = buffers.takeRejectedCertificate()
      }
    }
    input = rest
    output = unsafe Array(buffers.output)
    buffers.removeAllOutput()
  }
}
