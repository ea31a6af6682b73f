/// Hears of sockets that are parked on a loop. See `Socket.park(tag:)`.
package protocol ParkedSocketHandler: AnyObject {
  /// There is something to read: bytes, the end of the stream, or an error. Level-triggered: called in every turn until
  /// the socket is taken up or closed.
  func parkedSocketReady(_ tag: Int32)
}

/// A socket that nobody reads from or writes to for a long time needs no object: its loop goes on watching it.
///
/// 24 bytes for each, whatever else its owner remembers. Confined.
extension Socket {
  /// Gives the object up, while the loop goes on watching for something to read and tells `parkedSocketHandler` of it.
  /// Costs no system call where reading alone was watched already. Afterwards this socket is closed for its owner.
  ///
  /// - Returns: The number by which to take it up, which is not its descriptor; -1 when the socket is
  ///   closed. What is still parked when the loop ends is closed.
  package func park(tag: Int32) -> Int32 {
    loop.preconditionConfined()
    guard isOpen else { return -1 }
    precondition(
      loop.parkedSocketHandler != nil, "nobody hears of what is parked on loop \(loop.name)")
    return loop.park(giveUp(), tag: tag)
  }

  /// Takes a parked socket up again: open, with no handler yet, and interest in reading. No system call.
  ///
  /// - Parameter number: What `park(tag:)` returned; used up by this.
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
      // Its end was not waited for. The loop's end will close the socket; until then it is left alone.
      unsafe sockets[slot].pointee.interest = 0
      return arm(slot)
    }
    handler.parkedSocketReady(tag)
  }
}
