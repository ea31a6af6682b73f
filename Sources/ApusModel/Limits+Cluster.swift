/// A cluster of nodes over one database.
extension Limits {
  /// Parts into which a cluster may divide its devices: so many nodes decide at the same time.
  public static let deviceParts = 64
  /// Characters of a node's name: a label of a host name has as many (RFC 1035, section 2.3.4).
  public static let nodeNameLength = 63

  /// Milliseconds for which a lease must stand still before another node takes it over. A failover of the database and
  /// a short pause of a process take less.
  public static let leaseMilliseconds: UInt64 = 5000
  /// By how much earlier the node itself stops to decide. Covers clocks of different rates, and the time from a look
  /// at the clock to what follows from it.
  public static let leaseMarginMilliseconds: UInt64 = 500
  /// Milliseconds between two looks, beyond which the time between them does not count as observed: a node that was
  /// paused, or had no database, must not fence all others first.
  public static let leasePollGapMilliseconds: UInt64 = 500

  /// Milliseconds for which a notification waits for the node of its device, before its provider gets a 503: as long as
  /// a lease takes to lapse.
  public static let linkWaitMilliseconds: UInt64 = 5000
  /// Milliseconds for which the other node's machine may leave what clients sent unacknowledged before their link
  /// counts as lost. Longer than for notifications: a short outage need not make all devices connect again.
  public static let linkSilenceMilliseconds: UInt64 = 30_000
  /// Milliseconds before a link that ended or failed is opened again.
  public static let linkRetryMilliseconds: UInt64 = 100
  /// Milliseconds within which another node must complete the handshake of a link.
  public static let linkHandshakeMilliseconds: UInt64 = 3000
  /// Milliseconds for which a device's connection at an edge waits for the next node when the one before has stopped or
  /// is no longer reached: a take-over may wait for a database that is away itself.
  public static let linkResumeMilliseconds: UInt64 = 30_000
  /// Clients of a link of which the other node is not known to have them, before more wait: it reads what it knows of
  /// each device, and serves others meanwhile.
  public static let linkOpeningsAtOnce = 256
  /// Bytes of one client that may be under way on a link in one direction, before more waits.
  public static let linkClientBytes = 65_536
  /// Milliseconds within which the node that decides must answer a request of another node's administration.
  public static let linkAdministrationMilliseconds: UInt64 = 30_000
  /// Bytes of such a request: its content has at most a quarter of it, its head another.
  public static let linkRequestBytes = 262_144
  /// Bytes of the answer.
  public static let linkAnswerBytes = 67_108_864
  /// Undecided notifications of one link, beyond which it is not read.
  public static let linkWindow = 8192
}
