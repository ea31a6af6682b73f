/// What a webhook can be told about. The raw values are the names in requests and never change their meaning.
package enum EventKind: String, Sendable, CaseIterable {
  /// A notification reached a final state.
  case notificationFinished = "notification.finished"
  /// A device token died: its app was removed or reinstalled, or its device retired.
  case tokenDied = "token.died"
  /// A device connected for the first time.
  case deviceFirstSeen = "device.first-seen"
  case deviceConnected = "device.connected"
  /// An operator retired a device.
  case deviceRetired = "device.retired"
  /// A certificate expires within 30 days.
  case certificateExpiring = "certificate.expiring"
  /// Changes of the data directory do not apply, because it cannot be read.
  case trustStale = "trust.stale"
  /// An upstream rejects what the relay shows it, or most device tokens: an operator has to act.
  case upstreamFailing = "upstream.failing"
}

/// A set of kinds.
package struct EventKinds: OptionSet, Sendable, Hashable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  package init(_ kinds: some Sequence<EventKind>) {
    self.init(rawValue: kinds.reduce(0) { $0 | Self.bit($1) })
  }

  package static let all = EventKinds(EventKind.allCases)

  /// The kinds with these names; all, if there are none.
  package init(names: [String]) throws(UnknownEvent) {
    var kinds: [EventKind] = []
    for name in names {
      guard let kind = EventKind(rawValue: name) else { throw UnknownEvent(name: name) }
      kinds.append(kind)
    }
    self = kinds.isEmpty ? .all : EventKinds(kinds)
  }

  package func contains(_ kind: EventKind) -> Bool { rawValue & Self.bit(kind) != 0 }

  package var names: [String] { EventKind.allCases.filter(contains).map(\.rawValue) }

  private static func bit(_ kind: EventKind) -> UInt32 {
    switch kind {
    case .notificationFinished: 1 << 0
    case .tokenDied: 1 << 1
    case .deviceFirstSeen: 1 << 2
    case .deviceConnected: 1 << 3
    case .deviceRetired: 1 << 4
    case .certificateExpiring: 1 << 5
    case .trustStale: 1 << 6
    case .upstreamFailing: 1 << 7
    }
  }
}

/// A name that no event has.
package struct UnknownEvent: Error, Sendable, CustomStringConvertible {
  package var name: String

  package var description: String {
    let known = EventKind.allCases.map(\.rawValue).joined(separator: ", ")
    return "\"\(name)\" is not an event; events are \(known)"
  }
}
