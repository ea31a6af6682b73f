/// Handles events of sockets that are parked on a loop. See `Socket.park(tag:)`.
package protocol ParkedSocketHandler: AnyObject {
  /// The socket is readable: bytes, the end of the stream, or an error. Level-triggered: called in every turn until
  /// the socket is unparked or closed.
  func parkedSocketReady(_ tag: Int32)
}

/// A socket without reads or writes for a long time needs no object: its loop keeps watching it.
///
/// It takes 24 bytes, besides what its owner keeps. Confined.
extension Socket {
  /// Releases the object, while the loop keeps watching for readability and calls `parkedSocketHandler`. Costs no
  /// system call if only reading was watched. Afterwards this socket is closed for its owner.
  ///
  /// - Returns: The number for unparking it, which is not its descriptor; -1 if the socket is closed. Sockets still
  ///   parked when the loop ends are closed.
  package func park(tag: Int32) -> Int32 {
    loop.preconditionConfined()
    guard isOpen else { return -1 }
    precondition(
      loop.parkedSocketHandler != nil, "loop \(loop.name) has no handler for parked sockets")
    return loop.park(giveUp(), tag: tag)
  }

  /// Unparks a socket: open, without a handler, and with interest in reading. No system call.
  ///
  /// - Parameter number: The result of `park(tag:)`; invalid after this call.
  package convenience init(parked number: Int32, loop: EventLoop) {
    loop.unpark(number)
    self.init(slot: number, loop: loop)
  }
}

extension EventLoop {
  func park(_ slot: Int32, tag: Int32) -> Int32 {
    let entry = unsafe sockets[slot]
    let owner = unsafe entry.pointee.owner
    unsafe entry.pointee.owner = .parked(tag)
    unsafe entry.pointee.interest = Readiness.readable
    arm(slot)
    return withExtendedLifetime(owner) { slot }
  }

  func unpark(_ slot: Int32) {
    preconditionConfined()
    let entry = unsafe sockets[slot]
    guard case .parked = unsafe entry.pointee.owner else {
      preconditionFailure("socket \(slot) of loop \(name) is not parked")
    }
    unsafe entry.pointee.owner = .nobody
  }

  func tellParked(_ slot: Int32, _ tag: Int32) {
    guard let handler = parkedSocketHandler else {
      // Its end was not awaited. The loop's end will close the socket; until then it is left alone.
      unsafe sockets[slot].pointee.interest = 0
      return arm(slot)
    }
    handler.parkedSocketReady(tag)
  }
}
