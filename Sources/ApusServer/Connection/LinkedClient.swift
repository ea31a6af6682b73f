import ApusModel
import ApusWire

/// What takes the place of socket and TLS for a client whose connection another node has: its part of a link.
///
/// A connection with it belongs to the worker that serves the client from the beginning, and never moves.
final class LinkedClient {
  private let link: LinkedClients
  private let number: UInt32
  private var window = ClientWindow()
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
  /// Bytes that were read, and that the client's node does not know to be dealt with.
  private var unhandledBytes = 0

  init(_ link: LinkedClients, number: UInt32) {
    self.link = link
    self.number = number
  }

  // MARK: To the client

  /// Whether the client may get more now. If the link has no room, its connection is flushed when it has.
  var mayWrite: Bool {
    guard window.hasRoom else { return false }
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
    window.sent(bytes.count)
    link.send(bytes: bytes, of: number)
  }

  /// The client's node has passed on so many bytes.
  func granted(_ count: UInt32) { window.granted(count) }

  /// Nothing more follows for the client.
  func finish() {
    guard !isFinished, !isEnded else { return }
    isFinished = true
    link.send(.finished, of: number)
  }

  func end() { end(.ended) }

  /// This node stops: the next one goes on with the client.
  func release() { end(.released) }

  private func end(_ kind: ClientFrame.Kind) {
    guard !isEnded else { return }
    isEnded = true
    link.forget(number, kind)
  }

  // MARK: For the next node

  /// What the next node has to know, if it is to go on with the client.
  func keep(_ part: ClientState.Part, _ bytes: Span<UInt8>) {
    var content: [UInt8] = [part.rawValue]
    content.append(bytes)
    link.send(.state, of: number, content.span)
  }

  /// All that was read but the last `partialBytes` is dealt with, and answers were written.
  func handled(exceptLast partialBytes: Int) {
    let count = unhandledBytes - partialBytes
    guard count > 0, !isEnded else { return }
    unhandledBytes = partialBytes
    link.send(.handled, UInt32(count), of: number)
  }

  // MARK: From the client

  var holdsInput: Bool { !held.isEmpty }

  /// Keeps what is not to be read now. False if the client's node sends more than it may.
  func hold(_ bytes: Span<UInt8>) -> Bool {
    held.append(bytes)
    // One frame more than was granted may be under way.
    return held.count <= Limits.linkClientBytes + ClientFrame.pieceBytes
  }

  func takeHeld() -> [UInt8] {
    defer { held = [] }
    return held
  }

  /// So many bytes were read; the client's node learns it from time to time.
  func read(_ count: Int) {
    unhandledBytes += count
    if let credit = window.passed(count), !isEnded { link.send(.credit, credit, of: number) }
  }
}
