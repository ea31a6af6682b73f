import ApusModel
import ApusWire

/// What takes the place of socket and TLS for a client whose connection another node has: its part of a link.
///
/// A connection with it belongs to the worker that serves the client from the beginning, and never moves.
final class LinkedClient {
  private let link: LinkedClients
  private let number: UInt32
  /// Bytes for the client that its node has not passed on.
  private var waitingBytes = 0
  /// Bytes from the client that its node does not know to be read.
  private var readBytes = 0
  /// What came while the connection was not read.
  private var held: [UInt8] = []
  /// Whether it is in the link's queue of clients that wait for room.
  private var isHeldBack = false
  private var isFinished = false
  private var isEnded = false
  /// Whether the client finished behind what is held.
  var isFinishHeld = false
  /// Whether its node stops.
  var isStopping = false

  /// The most bytes of a frame; each side has room for one more than it has granted.
  private static let frameBytes = 65_536

  init(_ link: LinkedClients, number: UInt32) {
    self.link = link
    self.number = number
  }

  // MARK: To the client

  var mayWrite: Bool {
    guard waitingBytes < Limits.linkClientBytes else { return false }
    if link.mayWrite { return true }
    if !isHeldBack {
      isHeldBack = true
      link.holdBack(number)
    }
    return false
  }

  /// The link has room again.
  func goOn() { isHeldBack = false }

  func write(_ bytes: Span<UInt8>) {
    waitingBytes += bytes.count
    for start in stride(from: 0, to: bytes.count, by: Self.frameBytes) {
      let end = min(start + Self.frameBytes, bytes.count)
      link.send(.bytes, of: number, bytes.extracting(start..<end))
    }
  }

  /// The client's node has passed on so many bytes.
  func granted(_ count: Int) { waitingBytes = max(0, waitingBytes - count) }

  /// Nothing more follows for the client.
  func finish() {
    guard !isFinished, !isEnded else { return }
    isFinished = true
    link.send(.finished, of: number)
  }

  func end() {
    guard !isEnded else { return }
    isEnded = true
    link.forget(number)
  }

  // MARK: From the client

  var holdsInput: Bool { !held.isEmpty }

  /// Keeps what is not to be read now. False if the client's node sends more than it may.
  func hold(_ bytes: Span<UInt8>) -> Bool {
    held.append(bytes)
    return held.count <= Limits.linkClientBytes + Self.frameBytes
  }

  func takeHeld() -> [UInt8] {
    defer { held = [] }
    return held
  }

  /// So many bytes were read; the client's node learns it from time to time.
  func read(_ count: Int) {
    readBytes += count
    guard readBytes >= Limits.linkClientBytes / 4, !isEnded else { return }
    var content: [UInt8] = []
    content.append(bigEndian: UInt32(readBytes))
    readBytes = 0
    link.send(.credit, of: number, content.span)
  }
}
