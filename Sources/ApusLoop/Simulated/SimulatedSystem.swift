/// Stands in for the operating system under a loop that no thread runs: a simulation decides what its sockets read,
/// what both clocks say, and when it takes a turn.
///
/// A descriptor is this system's own number for one end of a connection. Numbers are far above those of the operating
/// system, so that a call which goes astray meets EBADF and not a file.
package protocol SimulatedSystem: AnyObject {
  /// As `EventLoop.nowMilliseconds`, which holds it for the length of a turn.
  var monotonicMilliseconds: UInt64 { get }
  /// As `EventLoop.wallClockMilliseconds()`.
  var wallClockMilliseconds: Int64 { get }

  /// The loop has something to do: a turn is to be taken. May be called again before that turn.
  func wake(_ loop: EventLoop)

  /// The loop watches a descriptor from now on, and wants to be told by `EventLoop.look(at:)` when it may have become
  /// ready.
  func adopted(_ descriptor: Int32, by loop: EventLoop)
  /// Whether reading would give something: bytes, the end of the stream, or an error.
  func isReadable(_ descriptor: Int32) -> Bool
  /// Whether writing would take something, or give an error.
  func isWritable(_ descriptor: Int32) -> Bool

  func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult
  func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult
  func shutdownWrite(_ descriptor: Int32)
  /// With a reset, or in order.
  func close(_ descriptor: Int32, resets: Bool)
  func unacknowledgedByteCount(_ descriptor: Int32) -> Int?
}
