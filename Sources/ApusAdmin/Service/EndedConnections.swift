/// A limit for which the service ends a peer's connection. The raw values are labels of a metric.
package enum ConnectionLimit: String, Sendable, CaseIterable {
  /// The peer took too long for the TLS handshake.
  case handshakeTime = "handshake_time"
  /// A connection to an address for proxies came from none, or did not begin with a valid header.
  case proxy
  /// The peer owed a step of its handshake, and others waited to begin theirs.
  case halfOpen = "half_open"
  /// The peer did not prove who it is in time.
  case untrustedTime = "untrusted_time"
  /// An HTTP/2 client sent too many frames that advance no request.
  case flood
  /// An HTTP/2 client took too long to send a frame, or to let a response through.
  case frameTime = "frame_time"
  /// The peer sent something that its protocol does not allow, or a frame that is too long.
  case brokenProtocol = "protocol"
  /// A provider sent too many requests that were rejected.
  case errors
  /// The peer did not read what was sent to it.
  case unread
  /// A device sent more than one keep-alive a second.
  case keepAlives = "keep_alives"
  /// One device connected from several places.
  case takeovers
}

/// How many connections were ended for each limit, since the start.
package struct EndedConnections: Sendable, Equatable {
  private var counts: [ConnectionLimit: UInt64] = [:]

  package init() {}

  package subscript(limit: ConnectionLimit) -> UInt64 { counts[limit, default: 0] }

  package mutating func count(_ limit: ConnectionLimit) { counts[limit, default: 0] += 1 }

  static func + (left: EndedConnections, right: EndedConnections) -> EndedConnections {
    var sum = left
    sum.counts.merge(right.counts) { $0 + $1 }
    return sum
  }
}

/// How often the listeners of a worker have paused, since the start.
package struct ListenerPauses: Sendable, Equatable {
  /// Because more connections came than there was room for.
  package var crowded: UInt64 = 0
  /// Because the process had not even the descriptor with which it refuses a connection.
  package var noDescriptor: UInt64 = 0

  package init() {}

  static func + (left: ListenerPauses, right: ListenerPauses) -> ListenerPauses {
    var sum = left
    sum.crowded += right.crowded
    sum.noDescriptor += right.noDescriptor
    return sum
  }
}
