/// What peers may take of a process before they have proved who they are.
extension Limits {
  /// Untrusted connections that one address (or /64) may hold, as a multiple of the connections that are still free:
  /// one alone gets four fifths of all, n of them 4/(4n + 1) each.
  public static let untrustedPerFree = 4
  /// The same of one listener: eight ninths of all.
  public static let untrustedPerFreeOfListener = 8
  /// The same of one listener for the first connection of an address: 64 of 65.
  public static let untrustedFirstPerFreeOfListener = 64
  /// Descriptors that connections do not get: the store's tables and logs, the administration, the loops. At most a
  /// quarter of what the process may have.
  public static let reservedDescriptors = 256
  /// Connections whose handshakes an acceptor goes on with in a turn of its loop. A peer that comes meanwhile gets in
  /// line in the next turn, and a worker that has something to do waits for one step at most.
  public static let handshakesPerTurn = 1
  /// Handshakes of an acceptor that have begun and wait for their peers. One takes 70 KB. At 1,000 handshakes a second
  /// a fleet whose devices need two seconds for their part comes as fast as without this bound.
  public static let handshakesHalfOpen = 2000
  /// Milliseconds that a peer has for its part at least, when others wait to begin.
  public static let handshakePatienceMilliseconds: UInt64 = 4000
  /// By how much an acceptor's thread is nicer than a worker's (`nice(2)`). A tenth of a processor stays its own when
  /// the worker has enough to do for all of it, so that devices and providers can connect to a service that is busy.
  /// With 5, a quarter, one of a hundred notifications waited up to 4 milliseconds for the system to take that share.
  public static let acceptorNiceness: Int32 = 10
  /// Connections that a worker ends in a turn of its loop because their time is over, or that fall dormant. Each costs
  /// some 20 microseconds.
  public static let duePerTurn = 2
  /// Connections a second that an acceptor takes while there is room for none: each is refused, or another one ends for
  /// it. That costs some 50 microseconds, so a crowd that goes on connecting takes a tenth of the processor.
  public static let crowdedPerSecond = 2000
  /// The same at once.
  public static let crowdedAtOnce = 64
  /// Milliseconds for which the listeners of an acceptor rest after more than that.
  public static let crowdedRestMilliseconds: UInt64 = 10
  /// Bytes that are read at once from a connection whose peer has not proved who it is: the largest TLS record.
  public static let untrustedReadBytes = 16_384 + 256 + 5
  /// Bytes of what such peers have sent that an acceptor looks at in a turn of its loop. A provider's first request,
  /// with its token, has 600; at most 85 frames fit, which cost about 0.1 ms.
  public static let untrustedTurnBytes = 1024
}
