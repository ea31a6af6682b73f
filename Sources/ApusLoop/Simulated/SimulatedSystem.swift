/// Replaces the operating system under a loop without a thread: a simulation decides what its sockets read, the time
/// of both clocks, and when it takes a turn.
///
/// A descriptor is this system's own number for one end of a connection. The numbers are far above those of the
/// operating system, so that a stray system call gets EBADF instead of a file.
package protocol SimulatedSystem: AnyObject {
  /// As `EventLoop.nowMilliseconds`, which keeps it for the length of a turn.
  var monotonicMilliseconds: UInt64 { get }
  /// How long ago the turn that a loop takes now has begun. In a simulation a turn happens at one time; a thread's turn
  /// lasts, and near its end it may find a message from a loop whose turn began later.
  var turnAgeMilliseconds: UInt64 { get }
  /// As `EventLoop.wallClockMilliseconds()`.
  var wallClockMilliseconds: Int64 { get }

  /// The loop has work: a turn must follow. May be called again before that turn.
  func wake(_ loop: EventLoop)

  /// Begins to connect, and returns the descriptor. It becomes writable when the outcome is known.
  func connect(to address: SocketAddress) -> Int32
  /// The `errno` of connecting, 0 for success.
  func connectError(_ descriptor: Int32) -> Int32

  /// How long written bytes may stay unacknowledged before the connection is given up.
  func setUserTimeout(_ descriptor: Int32, milliseconds: Int)

  /// The loop now watches a descriptor, and expects `EventLoop.look(at:)` when it may have become ready.
  func adopted(_ descriptor: Int32, by loop: EventLoop)
  /// Whether reading would return bytes, the end of the stream, or an error.
  func isReadable(_ descriptor: Int32) -> Bool
  /// Whether writing would accept bytes, or return an error.
  func isWritable(_ descriptor: Int32) -> Bool

  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult
  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult
  func shutdownWrite(_ descriptor: Int32)
  /// With a reset, or gracefully.
  func close(_ descriptor: Int32, resets: Bool)
  func unacknowledgedByteCount(_ descriptor: Int32) -> Int?
}

/// For a system whose programs only accept connections.
extension SimulatedSystem {
  package func connect(to address: SocketAddress) -> Int32 {
    preconditionFailure("this system makes no connections")
  }
  package func connectError(_ descriptor: Int32) -> Int32 { 0 }
  package func setUserTimeout(_ descriptor: Int32, milliseconds: Int) {}
}
