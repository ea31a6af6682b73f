import Glibc

/// A loop's operations on its sockets. Confined.
extension EventLoop {
  /// Starts watching a descriptor, which is closed on failure.
  ///
  /// It watches for reading, which most owners ask for next. Events before that are not reported.
  func adopt(_ descriptor: Int32, goesFirst: Bool) throws(SocketError) -> Int32 {
    preconditionConfined()
    guard takesHandles else {
      Glibc.close(descriptor)
      throw .loopStopped
    }
    let slot = sockets.take(descriptor)
    if let simulation {
      simulation.slots[descriptor] = slot
      simulation.system.adopted(descriptor, by: self)
      return slot
    }
    unsafe sockets[slot].pointee.goesFirst = goesFirst
    let key = sockets.key(slot)
    let code =
      goesFirst
      ? firstEpoll.add(descriptor, Readiness.readable, key: key)
      : epoll.add(descriptor, Readiness.readable, key: key)
    guard code == 0 else {
      _ = sockets.free(slot)
      Glibc.close(descriptor)
      throw .system(.watch, code: code, nil)
    }
    unsafe sockets[slot].pointee.armed = Readiness.readable
    return slot
  }

  /// Updates what is watched to what is wanted.
  func arm(_ slot: Int32) {
    let entry = unsafe sockets[slot]
    let wanted = unsafe entry.pointee.wanted
    if simulation != nil { return unsafe look(at: entry.pointee.descriptor) }
    guard unsafe wanted != entry.pointee.armed else { return }
    unsafe entry.pointee.armed = wanted
    if unsafe entry.pointee.goesFirst {
      unsafe firstEpoll.change(entry.pointee.descriptor, wanted, key: sockets.key(slot))
    } else {
      unsafe epoll.change(entry.pointee.descriptor, wanted, key: sockets.key(slot))
    }
  }

  /// Stops watching a socket, and frees its slot. Returns its descriptor, for the caller to close or keep.
  func release(_ slot: Int32) -> Int32 {
    let descriptor = unsafe sockets[slot].pointee.descriptor
    guard descriptor >= 0 else { return -1 }
    if let simulation {
      simulation.slots[descriptor] = nil
    } else if unsafe sockets[slot].pointee.goesFirst {
      firstEpoll.remove(descriptor)
    } else {
      epoll.remove(descriptor)
    }
    // Released at the end of this call: the release may close or adopt other sockets.
    let owner = sockets.free(slot)
    return withExtendedLifetime(owner) { descriptor }
  }

  func close(_ slot: Int32, resets: Bool) {
    let descriptor = release(slot)
    guard descriptor >= 0 else { return }
    if let simulation { return simulation.system.close(descriptor, resets: resets) }
    if resets {
      _ = setSocketOption(
        descriptor, SOL_SOCKET, SO_LINGER, Glibc.linger(l_onoff: 1, l_linger: 0))
    }
    Glibc.close(descriptor)
  }

  /// For an owner's `deinit`, on any thread.
  func retire(_ slot: Int32) {
    if isConfined || isClosed {
      close(slot, resets: false)
    } else {
      perform { self.close(slot, resets: false) }
    }
  }

  /// Closes what owners left open, and what is dormant, on an ending loop.
  func closeSockets() {
    var slot: Int32 = 0
    while slot < sockets.count {
      close(slot, resets: false)
      slot += 1
    }
  }

  // MARK: Events

  /// Reports readiness, once a turn although libuv may call for either epoll.
  func serveSockets() {
    guard !hasServedSockets else { return }
    hasServedSockets = true
    onWake?()
    serve(firstEpoll, limit: Epoll.eventsPerTurn)
    serve(epoll, limit: socketsPerTurn)
  }

  private func serve(_ epoll: borrowing Epoll, limit: Int) {
    let count = epoll.fetch(limit: limit)
    for index in 0..<count {
      let (events, key) = epoll.event(index)
      // Nil: an earlier handler has closed it, or it was a wake-up, which needs no action: each turn checks the queue.
      guard key != Epoll.wakeKey, let slot = sockets.slot(of: key) else { continue }
      let entry = unsafe sockets[slot]
      guard unsafe entry.pointee.wanted != 0 else {
        arm(slot)
        continue
      }
      tell(slot, of: unsafe Readiness.heard(events: events, interest: entry.pointee.interest))
    }
  }

  /// - Precondition: `heard` is wanted.
  func tell(_ slot: Int32, of heard: UInt32) {
    if heard & Readiness.readable != 0 {
      let key = sockets.key(slot)
      switch unsafe sockets[slot].pointee.owner {
      case .handler(let handler): handler.socketReadable()
      case .dormant(let tag): return notifyDormant(slot, tag)
      case .nobody, .free: return
      }
      // The call may have closed the socket, or changed its interest or handler.
      guard heard & Readiness.writable != 0, sockets.slot(of: key) != nil else { return }
    }
    let entry = unsafe sockets[slot]
    guard unsafe heard & entry.pointee.interest & Readiness.writable != 0,
      case .handler(let handler) = unsafe entry.pointee.owner
    else { return }
    handler.socketWritable()
  }
}
