/// What untrusted peers may use of a process.
extension Limits {
  /// Untrusted connections that one address (or /64) may hold, as a multiple of the connections that are still free: a
  /// single one gets four fifths of all, n of them 4/(4n + 1) each.
  public static let untrustedPerFree = 4
  /// The same for one listener: eight ninths of all.
  public static let untrustedPerFreeOfListener = 8
  /// The same for all listeners of an environment: sixteen seventeenths of all.
  public static let untrustedPerFreeOfEnvironment = 16
  /// The same for one listener, for the first connection of an address: 64 of 65.
  public static let untrustedFirstPerFreeOfListener = 64
  /// Descriptors reserved for the store's tables and logs, the administration and the loops: at most a quarter of the
  /// process's limit.
  public static let reservedDescriptors = 256
  /// Trusted connections that a team's providers may hold, as a multiple of those that are still free without a
  /// reserve: one team alone gets eight ninths.
  public static let providersPerFree = 8
  /// The reserve: connections for devices, and for teams that have few. At most an eighth of the process's.
  public static let reservedConnections = 256
  /// Trusted connections that each team can have however many others hold: the reserve suffices for 16 teams.
  public static let providersGuaranteed = 16
  /// Connections whose handshakes an acceptor continues in one turn of its loop. A peer that connects meanwhile queues
  /// in the next turn, and a busy worker waits for at most one step.
  public static let handshakesPerTurn = 1
  /// Handshakes of an acceptor that have begun and wait for their peers. One takes 70 KB. At 1,000 handshakes a
  /// second, a fleet whose devices need two seconds for their part connects as fast as without this bound.
  public static let handshakesHalfOpen = 2000
  /// The least time in milliseconds that a peer has for its part while others wait to begin.
  public static let handshakePatienceMilliseconds: UInt64 = 4000
  /// The `nice(2)` increment of an acceptor's thread over a worker's. The acceptor keeps a tenth of a processor even
  /// when the worker could use all of it, so devices and providers can connect to a busy service. With 5 (a quarter),
  /// one notification in a hundred waited up to 4 ms while the acceptor ran.
  public static let acceptorNiceness: Int32 = 10
  /// Connections that a worker closes on a timeout or makes dormant in one turn of its loop. Each costs some 20
  /// microseconds.
  public static let duePerTurn = 2
  /// Connections a second that an acceptor takes while there is room for none: it refuses each, or closes another one
  /// for it. That costs some 50 microseconds, so a crowd that keeps connecting takes a tenth of the processor.
  public static let crowdedPerSecond = 2000
  /// The same as a burst.
  public static let crowdedAtOnce = 64
  /// Milliseconds for which an acceptor's listeners pause after exceeding that.
  public static let crowdedPauseMilliseconds: UInt64 = 10
  /// Bytes per read from an untrusted connection: the largest TLS record.
  public static let untrustedReadBytes = 16_384 + 256 + 5
  /// Bytes from untrusted peers that an acceptor processes in one turn of its loop. A provider's first request, with
  /// its token, has 600; at most 85 frames fit, which cost about 0.1 ms.
  public static let untrustedTurnBytes = 1024
  /// Bytes of a line in which a proxy names the client, with its end (proxy-protocol.txt, section 2.1).
  public static let proxyLineBytes = 107
  /// Bytes of a binary header in which a proxy names the client: 16, and 4,096 for addresses and further information.
  public static let proxyHeaderBytes = 16 + 4096
}
