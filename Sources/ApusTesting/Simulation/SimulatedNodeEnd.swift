import ApusLoop
import Glibc

/// The end of a connection between two nodes at the one that has made it.
final class SimulatedNodeEnd: SimulatedEnd, LinkPeer {
  let descriptor: Int32
  let host: SimulatedHost
  weak var loop: EventLoop?
  private var link: SimulatedLink?
  private var isConnected = false
  private var isClosed = false
  private var error: Int32?
  private var hasEnded = false
  private var input: [UInt8] = []
  private(set) var awaitsRoom = false
  /// Called when the connection has ended, or may have for the other side.
  var onEnd: () -> Void = {}

  private static let inputCapacity = 65_536

  init(_ number: Int, on host: SimulatedHost) {
    descriptor = Int32(2_000_000 + number)
    self.host = host
  }

  func connect(to node: any SimulatedNode, listener: Int, over network: SimulatedNetwork) {
    link = network.connect(self, listener: listener, to: node)
  }

  // MARK: The network

  private func look() { loop?.look(at: descriptor) }

  func linkConnected() {
    isConnected = true
    look()
  }

  func linkReceived(_ bytes: [UInt8], wallMilliseconds: Int64) {
    input += bytes
    if input.count >= Self.inputCapacity { link?.isPeerReading = false }
    look()
  }

  func linkEnded() {
    hasEnded = true
    onEnd()
    look()
  }

  func linkFailed() { fail(isConnected ? ECONNRESET : ECONNREFUSED) }

  private func fail(_ code: Int32) {
    guard error == nil, !isClosed else { return }
    error = code
    link = nil
    onEnd()
    look()
  }

  func linkHasRoom() {
    // The program may have filled it already.
    guard isWritable else { return }
    awaitsRoom = false
    look()
  }

  // MARK: The program

  var isReadable: Bool { !input.isEmpty || hasEnded || error != nil }
  var isWritable: Bool { error != nil || isConnected && (link?.peerRoom ?? 0) > 0 }
  var connectError: Int32 { error ?? 0 }
  var unacknowledgedByteCount: Int { link?.toService.inFlightBytes ?? 0 }

  var userTimeoutMilliseconds: UInt64 {
    get { link?.toService.userTimeoutMilliseconds ?? 0 }
    set { link?.toService.userTimeoutMilliseconds = newValue }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    guard !input.isEmpty else {
      if let error { return .failed(error) }
      return hasEnded ? .endOfStream : .wouldBlock
    }
    let count = min(buffer.count, input.count)
    unsafe input.withUnsafeBytes { bytes in
      unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }
    input.removeFirst(count)
    if input.count < Self.inputCapacity { link?.isPeerReading = true }
    return .bytes(count)
  }

  func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
    if let error { return .failed(error) }
    guard let link, isConnected else { return .wouldBlock }
    let count = min(bytes.count, link.peerRoom)
    guard count > 0 else {
      awaitsRoom = true
      return .wouldBlock
    }
    if count < bytes.count { awaitsRoom = true }
    link.write(unsafe Array(bytes[..<count]))
    return .bytes(count)
  }

  func shutdownWrite() { link?.finish() }

  func close(resets: Bool) {
    guard !isClosed else { return }
    isClosed = true
    onEnd()
    link?.closePeer(resets: resets || !input.isEmpty)
    link = nil
    host.forget(descriptor)
  }

  /// The machine has lost power.
  func lose() {
    guard !isClosed else { return }
    isClosed = true
    onEnd()
    link?.losePeer(probed: true)
    link = nil
    host.forget(descriptor)
  }
}
