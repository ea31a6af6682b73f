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
  /// Steps of TLS handshakes, first flights and second ones, that a worker's thread for them has at a time: the one
  /// that it takes, and the next one.
  public static let handshakesAtOnce = 2
  /// Connections whose handshakes a worker goes on with in a turn of its loop. Of those who have given up there may be
  /// thousands, and each costs some calls.
  public static let handshakesPerTurn = 2
  /// Handshakes of a worker that have begun and wait for their peers. One takes 70 KB. At 1,000 handshakes a second a
  /// fleet whose devices need two seconds for their part comes as fast as without this bound.
  public static let handshakesHalfOpen = 2000
  /// Milliseconds that a peer has for its part at least, when others wait to begin.
  public static let handshakePatienceMilliseconds: UInt64 = 4000
  /// By how much that thread is nicer than the others (`nice(2)`). A quarter of a processor stays its own when the
  /// worker has enough to do for all of it, so that devices and providers can connect to a service that is busy.
  public static let handshakeNiceness: Int32 = 5
  /// Connections that a worker ends in a turn of its loop because their time is over, or that fall dormant. Each costs
  /// some 20 microseconds.
  public static let duePerTurn = 2
  /// Connections a second that a worker accepts while there is room for none: each is refused, or another one ends for
  /// it. That costs some 50 microseconds, so a crowd that goes on connecting takes a tenth of the processor.
  public static let crowdedPerSecond = 2000
  /// The same at once.
  public static let crowdedAtOnce = 64
  /// Milliseconds for which the listeners of a worker rest after more than that.
  public static let crowdedRestMilliseconds: UInt64 = 10
  /// Bytes that are read at once from a connection whose peer has not proved who it is: the largest TLS record.
  public static let untrustedReadBytes = 16_384 + 256 + 5
  /// Bytes of what such peers have sent that a worker looks at in a turn of its loop. A provider's first request, with
  /// its token, has 600; at most 85 frames fit, which cost about 0.1 ms.
  public static let untrustedTurnBytes = 1024
}
