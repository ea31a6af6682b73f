import ApusModel
import ApusWire

// What a connection's packets and its end prove. Source of the rules: Binary Provider API, The format of the
// error-response packet, and its table of status codes.

extension SentQueue {
  /// What the driver does after a packet.
  enum PacketVerdict: Sendable, Hashable {
    case goOn
    /// The service reads no more: end the connection, and write the rest on another.
    case ended
    /// The same, and the packet answered the probe.
    case proven
    /// The same, and the packet named nothing that was sent.
    case notUnderstood
  }

  /// A connection is open; nothing has been written to it.
  mutating func connectionBegan() {
    connectionStart = next
    handed = next
    // Open entries are behind this place: packets of this connection cannot concern earlier ones.
    tail = next
    firstOpen = next
    hasAccepted = false
    droppedCount = 0
    clearMarks()
  }

  /// Processes a packet. After any result but `goOn`, no further packet of this connection may be passed in.
  mutating func received(_ packet: BinaryErrorPacket) -> PacketVerdict {
    defer { trim() }
    let place = place(of: packet.identifier)
    switch BinaryStatus(rawValue: packet.status) {
    case .noError:
      // The service confirms in stream order, so this covers all earlier ones too. An unknown number proves nothing.
      if let place { accept(before: place + 1, as: .over) }
      return .goOn
    case .shutdown:
      // Here the identifier is that of the last notification that was sent successfully, unlike in other packets.
      if let place {
        accept(before: place + 1, as: .over)
        sendAgain(after: place)
        return .ended
      }
      guard packet.identifier == 0, format.command != .simple else { return giveUp() }
      // No notification has the number 0, so nothing on this connection was accepted. If silence suggested otherwise,
      // either the silence or the service is wrong.
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
      // Notifications sent after it were discarded.
      sendAgain(after: place)
      return isProbe ? .proven : .ended
    }
  }

  /// The service sent something that is not a packet. The connection has ended.
  mutating func receivedNonsense() -> PacketVerdict {
    defer { trim() }
    return giveUp()
  }

  /// The connection ended without a packet. What the system had may have been read; the rest was not read, and stays.
  ///
  /// - Parameter isUnread: Whether the service certainly read nothing, as when it refuses the certificate.
  mutating func connectionLost(isUnread: Bool = false) {
    if isUnread, !hasAccepted {
      sendAgain(after: connectionStart - 1)
    } else {
      settleHanded(.connectionLost)
    }
    trim()
  }

  /// The place of an identifier of this connection; nil if it was not used, or not passed to the system yet.
  private func place(of identifier: UInt32) -> Int? {
    guard format.command != .simple, identifier > 0 else { return nil }
    let place = connectionStart + Int(identifier) - 1
    return place < handed ? place : nil
  }

  // MARK: Consequences

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
    case .presumed, .again: settle(place, .rejectedLate(status))
    case .probe: self[place].state = .over
    case .over: break
    }
  }

  /// Entries after `place` were not read: they are written again, even if silence had suggested acceptance.
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

  /// Entries that were accepted by silence may not have been accepted.
  private mutating func doubtPresumed() {
    for place in tail..<handed where self[place].state == .presumed { settle(place, .lost) }
    forgottenCount += droppedCount
  }

  /// The packet proves nothing, and the connection has ended.
  private mutating func giveUp() -> PacketVerdict {
    settleHanded(.answerNotUnderstood)
    return .notUnderstood
  }

  /// The service may have accepted what the system had, and nothing else.
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

  /// An unread probe concerned a connection that has ended: the next one gets its own if needed.
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
    // A second acceptance is not reported.
    if entry.state == .again, settlement == .accepted { return }
    settled.append(Settled(ticket: entry.ticket, id: entry.id, settlement: settlement))
  }

  /// Ends an entry without an answer.
  mutating func fail(_ place: Int, _ cause: UnknownCause.Code, mayBeTaken: Bool) {
    switch self[place].state {
    case .open: settle(place, .unknown(cause, mayBeTaken: mayBeTaken))
    case .again: settle(place, .lost)
    case .presumed, .over, .probe: break
    }
  }
}
