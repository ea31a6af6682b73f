/// The relay of notifications to an upstream service.
extension Limits {
  /// The longest time in seconds that a `retry-after` from upstream is followed. A longer one is shortened: the next
  /// answer may extend it, and an absurd one must not hold an app's notifications until they expire.
  public static let upstreamRetryAfterSeconds = 3600

  /// Bad tokens of an app that are reported before upstream has accepted any of its tokens. A test bench with one bad
  /// token gets its answer, three times even; a wrong configuration costs a provider three tokens of its database.
  public static let badTokensUnproven = 3
  /// By how many the bad tokens that are reported may exceed the good ones since any moment. If three tokens of ten are
  /// bad at random, one rise from 0 in 20 million gets so far; a cluster of bad ones may, and is held for a while.
  public static let badTokensMargin = 20
  /// Answers after the operator's confirmation during which every bad token is reported: an old database may have
  /// hundreds of bad ones in a row.
  public static let badTokensConfirmed = 1000

  /// Seconds for which resends are recognised after an error packet. Senders resend at once, or when they next run
  /// their queue; pushes that recur with the same content mostly do so less often.
  public static let rememberedSeconds: Int64 = 600
  /// Notifications of one connection that upstream has not answered, beyond which nothing more is read from it: with
  /// answers after 40 ms, 400,000 a second.
  public static let relayLookAheadFrames = 16_384
  /// Notifications after a refused one that are remembered: a connection's, with those of one more read.
  public static let rememberedPerSequence = relayLookAheadFrames + binaryWindowFrames
  /// Sequences of one sender: as many of its connections may fail at a time.
  public static let rememberedSequencesPerSender = 16
  /// Notifications in all sequences of all senders, of 32 bytes each.
  public static let rememberedNotifications = 262_144

  /// Seconds for which a token that upstream declared dead is not sent there again: providers are to read the feedback
  /// list once a day ("Binary Provider API", The Feedback Service).
  public static let deadUpstreamSeconds: Int64 = 86_400
  /// Such tokens, of some 100 bytes each in memory.
  public static let deadUpstreamTokens = 262_144
  /// Seconds after which a provider is asked to send again what upstream cannot take now.
  public static let relayRetrySeconds = 10
  /// Seconds for which upstream is waited for on behalf of a provider, before it is told that there is no answer.
  public static let relayAnswerSeconds = 20
  /// Notifications that wait for one upstream at a time, in the client that sends them.
  public static let relayQueueCapacity = 20_000
  /// Notifications of an app in one environment that are in memory while they wait for upstream, and that are sent at a
  /// time. With 4,000 and Apple's 1,000 streams on each of several connections, none of these waits.
  public static let relayWindow = 4000
  /// Bytes of notifications in memory, of all apps, while further new ones are kept there beyond their app's window:
  /// reading one back from the store costs more than the memory, of about twice as many bytes.
  public static let relayMemoryBytes = 16 << 20
  /// The longest time in seconds between attempts where upstream names none.
  public static let relayLongestPauseSeconds = 60
  /// The largest quota of an app or a team: more than a machine sends.
  public static let relayPerSecond = 1_000_000
  /// Notifications that wait for the relay's thread. A worker's connections together read far less in a turn.
  public static let relayInboxCapacity = 65_536
}
