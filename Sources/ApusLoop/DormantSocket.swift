/// Handles events of dormant sockets. See `Socket.becomeDormant(tag:)`.
package protocol DormantSocketHandler: AnyObject {
  /// The socket is readable: bytes, the end of the stream, or an error. Level-triggered: called in every turn until
  /// the socket is reclaimed or closed.
  func dormantSocketReady(_ tag: Int32)
}

/// A socket without reads or writes for a long time needs no object: its loop keeps watching it.
///
/// It takes 24 bytes, besides what its owner keeps. Confined.
extension Socket {
  /// Releases the object, while the loop keeps watching for readability and calls `dormantSocketHandler`. Costs no
  /// system call if only reading was watched. Afterwards this socket is closed for its owner.
  ///
  /// - Returns: The number for reclaiming it, which is not its descriptor; -1 if the socket is closed. Sockets still
  ///   dormant when the loop ends are closed.
  package func becomeDormant(tag: Int32) -> Int32 {
    loop.preconditionConfined()
    guard isOpen else { return -1 }
    precondition(
      loop.dormantSocketHandler != nil, "loop \(loop.name) has no handler for dormant sockets")
    return loop.makeDormant(giveUp(), tag: tag)
  }

  /// Reclaims a dormant socket: open, without a handler, and with interest in reading. No system call.
  ///
  /// - Parameter number: The result of `becomeDormant(tag:)`; invalid after this call.
  package convenience init(dormant number: Int32, loop: EventLoop) {
    loop.reclaim(number)
    self.init(slot: number, loop: loop)
  }
}

extension EventLoop {
  func makeDormant(_ slot: Int32, tag: Int32) -> Int32 {
    let entry = unsafe sockets[slot]
    let owner = unsafe entry.pointee.owner
    unsafe entry.pointee.owner = .dormant(tag)
    unsafe entry.pointee.interest = Readiness.readable
    arm(slot)
    return withExtendedLifetime(owner) { slot }
  }

  func reclaim(_ slot: Int32) {
    preconditionConfined()
    let entry = unsafe sockets[slot]
    guard case .dormant = unsafe entry.pointee.owner else {
      preconditionFailure("socket \(slot) of loop \(name) is not dormant")
    }
    unsafe entry.pointee.owner = .nobody
  }

  func notifyDormant(_ slot: Int32, _ tag: Int32) {
    guard let handler = dormantSocketHandler else {
      // Its end was not awaited. The loop's end will close the socket; until then it is left alone.
      unsafe sockets[slot].pointee.interest = 0
      return arm(slot)
    }
    handler.dormantSocketReady(tag)
  }
}
