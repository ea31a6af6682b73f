import ApusModel
import ApusWire

// What a connection's packets and its end prove. Source of the rules: "Binary Provider API", "The format of the
// error-response packet", and its table of status codes.

extension SentQueue {
  /// What the driver does after a packet.
  enum PacketVerdict: Sendable, Hashable {
    case goOn
    /// The service reads no more: end the connection, and write what is left on another.
    case ended
    /// The same, and the packet was the one that the probe asked for.
    case proven
    /// The same, and the packet was about nothing that was sent.
    case notUnderstood
  }

  /// There is a connection; nothing has been written to it.
  mutating func connectionBegan() {
    connectionStart = next
    handed = next
    // What has no outcome stands behind: a packet of this connection says nothing of those before.
    tail = next
    firstOpen = next
    hasAccepted = false
    droppedCount = 0
    clearMarks()
  }

  /// The service said something. After anything but `goOn` no packet of this connection is to be handed in again.
  mutating func received(_ packet: BinaryErrorPacket) -> PacketVerdict {
    defer { trim() }
    let place = place(of: packet.identifier)
    switch BinaryStatus(rawValue: packet.status) {
    case .noError:
      // The service confirms in the order of the stream, so this speaks for all before it as well. A number that it
      // never got says nothing.
      if let place { accept(before: place + 1, as: .over) }
      return .goOn
    case .shutdown:
      // "The identifier is that of the last notification that was successfully sent": unlike any other packet's.
      if let place {
        accept(before: place + 1, as: .over)
        sendAgain(after: place)
        return .ended
      }
      guard packet.identifier == 0, format.command != .simple else { return giveUp() }
      // None has the number 0: nothing of what came over this connection was accepted. Where silence has said
      // otherwise, either was wrong, or the service does not know.
      guard !hasAccepted else {
        doubtPresumed()
        return giveUp()
      }
      sendAgain(after: connectionStart - 1)
      return .ended
    default:
      guard let place else { return giveUp() }
      let isProbe = place >= tail && self[place].state == .probe
      accept(before: place, as: .over)
      reject(place, packet.status)
      // "Notifications already sent after it are discarded."
      sendAgain(after: place)
      return isProbe ? .proven : .ended
    }
  }

  /// The service said something that is no packet. The connection is over.
  mutating func receivedNonsense() -> PacketVerdict {
    defer { trim() }
    return giveUp()
  }

  /// The connection ended, and no packet said why. What the system was given may have been read, or not; what it was
  /// not given was not read, and stays.
  ///
  /// - Parameter isUnread: Whether the service has certainly read nothing, as when it refuses the certificate.
  mutating func connectionLost(isUnread: Bool = false) {
    if isUnread, !hasAccepted {
      sendAgain(after: connectionStart - 1)
    } else {
      settleHanded(.connectionLost)
    }
    trim()
  }

  /// The place of a number of this connection; nil for one that it has not given out, or not to the system yet.
  private func place(of identifier: UInt32) -> Int? {
    guard format.command != .simple, identifier > 0 else { return nil }
    let place = connectionStart + Int(identifier) - 1
    return place < handed ? place : nil
  }

  // MARK: What follows

  /// Everything before `place` was accepted: by silence (`presumed`), or for certain (`over`).
  mutating func accept(before place: Int, as state: State) {
    while firstOpen < place {
      if isPending(firstOpen) {
        settle(firstOpen, .accepted, state: state)
        hasAccepted = true
      }
      firstOpen += 1
    }
    guard state == .over, place > tail else { return }
    for kept in tail..<place where self[kept].state == .presumed { self[kept].state = .over }
  }

  private mutating func reject(_ place: Int, _ status: UInt8) {
    guard place >= tail else {
      if droppedCount > 0, place < droppedThrough { forgottenCount += 1 }
      return
    }
    switch self[place].state {
    case .open: settle(place, .rejected(status))
    case .presumed, .again: settle(place, .belied(status))
    case .probe: self[place].state = .over
    case .over: break
    }
  }

  /// What stands behind `place` was not read: it is written again, whether it was accepted by silence or not.
  private mutating func sendAgain(after place: Int) {
    forgottenCount += max(0, min(droppedThrough - place - 1, droppedCount))
    next = max(place + 1, tail)
    for unread in next..<handed where self[unread].state == .presumed {
      self[unread].state = .again
      againCount += 1
    }
    firstOpen = next
    handed = next
    forgetProbe()
    clearMarks()
  }

  /// What was accepted by silence may not have been.
  private mutating func doubtPresumed() {
    for place in tail..<handed where self[place].state == .presumed { settle(place, .lost) }
    forgottenCount += droppedCount
  }

  /// The packet proves nothing, and the connection is over.
  private mutating func giveUp() -> PacketVerdict {
    settleHanded(.answerNotUnderstood)
    return .notUnderstood
  }

  /// The service may have taken what the system was given, and nothing else.
  private mutating func settleHanded(_ cause: UnknownCause.Code) {
    for place in tail..<handed {
      fail(place, cause, mayBeTaken: true)
      self[place].state = .over
    }
    next = handed
    firstOpen = handed
    forgetProbe()
    clearMarks()
  }

  /// A probe that was not read asked about a connection that is over: the next one has its own, if it needs one.
  private mutating func forgetProbe() { if endsInProbe { end -= 1 } }

  private mutating func clearMarks() {
    marks.removeAll(keepingCapacity: true)
    markHead = 0
  }

  // MARK: Settling

  func isPending(_ place: Int) -> Bool {
    switch self[place].state {
    case .open, .again: true
    case .presumed, .over, .probe: false
    }
  }

  mutating func settle(_ place: Int, _ settlement: Settlement, state: State = .over) {
    let entry = self[place]
    switch entry.state {
    case .open: openCount -= 1
    case .again: againCount -= 1
    case .presumed, .over, .probe: break
    }
    self[place].state = state
    // Of a second acceptance nobody need hear.
    if entry.state == .again, settlement == .accepted { return }
    settled.append(Settled(ticket: entry.ticket, id: entry.id, settlement: settlement))
  }

  /// There is no outcome.
  mutating func fail(_ place: Int, _ cause: UnknownCause.Code, mayBeTaken: Bool) {
    switch self[place].state {
    case .open: settle(place, .unknown(cause, mayBeTaken: mayBeTaken))
    case .again: settle(place, .lost)
    case .presumed, .over, .probe: break
    }
  }
}
