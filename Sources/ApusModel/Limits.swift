/// Every bound of the service in one place, with its unit and its source.
///
/// Reaching a limit has a defined result (an error of the protocol, or a close), never growth and never silence.
public enum Limits {
  // MARK: Provider API

  /// Bytes of a payload. "Generating a remote notification": 4 KB.
  public static let payloadBytes = 4096
  /// Bytes of a VoIP payload. Same source: 5 KB.
  public static let voipPayloadBytes = 5120
  /// Bytes of `apns-collapse-id`. "Sending notification requests to APNs".
  public static let collapseIDBytes = 64
  /// Bytes of a topic: as many as a bundle id may have (255 as in a file name), and the longest suffix.
  public static let topicBytes = 280
  /// Bytes of a decoded device token in a request path. Source: "Binary Provider API".
  public static let deviceTokenBytes = 100
  /// SETTINGS_MAX_HEADER_LIST_SIZE as APNs announces it.
  public static let headerListBytes = 8000
  /// SETTINGS_MAX_CONCURRENT_STREAMS as APNs announces it once a provider is trusted.
  public static let concurrentStreams = 1000
  /// The same before the first request with a valid provider token.
  public static let concurrentStreamsUntrusted = 1
  /// Streams that a client may open before it has acknowledged the SETTINGS frame with the limit; later ones are
  /// refused, which the client may safely retry. RFC 9113, section 6.5.2, advises against limits below 100, and
  /// clients that do not wait were seen to open 40.
  public static let streamsBeforeSettings = 256
  /// Nested containers in a payload. Apple names no bound; real payloads stay below ten.
  public static let payloadDepth = 64
  /// Seconds within which a request must arrive, from its first header to its last byte. Slower ones are reset.
  public static let requestSeconds = 10
  /// Seconds from a request's first header to its answer, whatever the store does. Users of pushy wait as long.
  public static let answerSeconds = 30
  /// Requests to one device token in a burst, beyond which they are answered 429; the default. Apple publishes no
  /// figure; this is generous.
  public static let requestsPerToken = 10_000
  /// Of those, how many are restored each second.
  public static let requestsPerTokenPerSecond = 1_000
  /// Rejected requests on one connection after which it is closed. A bad device token counts twice, a 410 not at all.
  /// APNs disconnects after too many errors too, but publishes no figure.
  public static let errorsPerConnection = 10_000
  /// Of those, how many are forgiven each second.
  public static let errorsPerConnectionPerSecond = 100
  /// Seconds without a request after which a provider's connection is closed. Providers are to keep connections for
  /// hours.
  public static let providerIdleSeconds = 3600
  /// Seconds within which an HTTP/2 client must present a valid credential, or its connection is closed. Clients that
  /// connect ahead of their first push reconnect as they do after an idle timeout.
  public static let untrustedConnectionSeconds = 60
  /// The longest time in seconds that each step of a drain waits for a client.
  public static let drainGapSeconds = 10
  /// Seconds that a drain waits for a moment without open streams before the next answer announces it; also the time
  /// that a client has to answer the PING sent after that.
  public static let drainPatienceSeconds = 1
  /// Seconds that remain for a provider's handshake when the service shuts down. A handshake takes two round trips.
  public static let drainHandshakeSeconds: UInt64 = 2
  /// Milliseconds that a shutdown waits for devices before it tells providers. Operators expect a restart to take
  /// seconds.
  public static let deviceDrainMilliseconds: Int64 = 1500
  /// Milliseconds after the signal that stops the service in which further ones count as the same.
  public static let repeatedSignalMilliseconds: UInt64 = 500
  /// Seconds in which a device may acknowledge what was sent to it before the shutdown.
  public static let drainAcknowledgeSeconds: UInt64 = 1
  /// Devices that each worker tells of the shutdown per millisecond: each costs some ten microseconds, and providers
  /// are served meanwhile.
  public static let devicesDrainedAtOnce = 64
  /// Milliseconds by which each connected device extends the period over which devices reconnect: a worker completes
  /// some 500 handshakes a second.
  public static let reconnectMillisecondsPerDevice: UInt64 = 2
  /// Bounds of that period. The lower one keeps a few devices from reconnecting all at once.
  public static let reconnectSpreadMilliseconds: ClosedRange<UInt64> = 500...60_000
  /// Bytes of a provider token (a JWT of two short JSON objects and a signature is below 300).
  public static let providerTokenBytes = 2048
  /// Lifetime of a provider token in seconds. "Establishing a token-based connection to APNs": one hour.
  public static let providerTokenSeconds: Int64 = 3600
  /// Seconds by which a provider token's issue time may be in the future, for providers whose clocks run ahead. That
  /// page does not say; an hour would double a token's lifetime. Clocks set by NTP differ by less than a second; a
  /// provider whose clock is further off is told by how much.
  public static let providerTokenAheadSeconds: Int64 = 120
  /// The least number of seconds between two provider tokens on a connection. Same source: 20 minutes.
  public static let providerTokenRefreshSeconds: Int64 = 1200
  /// Team-scoped keys of a team in one environment. Same source.
  public static let teamKeysPerEnvironment = 2
  /// Topic-specific keys of a team in one environment. Same source.
  public static let topicKeysPerEnvironment = 200
  /// Topics of a topic-specific key. Same source.
  public static let topicsPerKey = 400

  // MARK: Binary provider interface

  /// Bytes of a payload on the binary interface. "Binary Provider API", Table A-1: 2 KB since 2014. Legacy senders
  /// also use that many with commands 0 and 1, whose page says 256.
  public static let binaryPayloadBytes = 2048
  /// Bytes of a payload of commands 0 and 1 as "Simple Notification Format" states it.
  public static let binarySimplePayloadBytes = 256
  /// Bytes of a VoIP payload on the binary interface: as many as providers with VoIP certificates use.
  public static let binaryVoIPPayloadBytes = 4096
  /// Bytes of a command 2 frame after its header: two items of the largest size that a u16 expresses, and small ones.
  public static let binaryFrameBytes = 131_072
  /// Undecided notifications of one connection beyond which the service stops reading from it. One read may add as
  /// many again: 64 KB of the smallest frames.
  public static let binaryWindowFrames = 2048
  /// Seconds within which a frame must arrive, from its first byte to its last.
  public static let binaryFrameSeconds = 60
  /// Seconds without a notification after which a binary connection is closed. Providers keep one open all day.
  public static let binaryIdleSeconds = 24 * 3600
  /// Milliseconds between the last bytes and close_notify. Clients whose read returns data together with the end of
  /// the stream drop the data: 15 of 25 runs without a pause, none of 25 with this one.
  public static let pauseBeforeCloseMilliseconds: UInt64 = 30
  /// The longest time in milliseconds over which a shutdown spreads closing a worker's binary connections.
  public static let binaryDrainSpreadMilliseconds: UInt64 = 500
  /// Tuples per write of the feedback service: 988 bytes. Some readers lose data from larger records.
  public static let feedbackTuplesPerWrite = 26
  /// Tuples that one connection to the feedback service returns; the next connection returns those that follow.
  public static let feedbackTuplesPerConnection = 100_000
  /// Seconds that a feedback reader has to close its side, counted from when its system has received everything; also
  /// the time for that delivery, counted from the last write.
  public static let feedbackTakenSeconds = 10

  /// Days after which pushes to a dead token count against their provider. "Binary Provider API", The Feedback
  /// Service, advises providers to read the list once a day.
  public static let deadTokenDays: Int64 = 1

  // MARK: HTTP/2 connections

  /// Bytes that a connection's requests may have in flight: one payload per stream.
  public static let connectionWindowBytes = concurrentStreams * payloadBytes
  /// Open requests of all connections of one worker; further streams are refused. One takes 9 to 14 KB.
  public static let openRequests = 16384
  /// Of those, the share of all untrusted connections. It is twice a full connection, for clients that open streams
  /// before they know the limit.
  public static let openRequestsUntrusted = 2048
  /// Of those, the reserve for teams that have few open; half of it also serves first requests of untrusted
  /// connections.
  public static let openRequestsReserved = 2048
  /// Open requests guaranteed to each team however many others have: the reserve suffices for 32 teams that all use it
  /// fully. A connection with fewer has precedence over others of its team.
  public static let openRequestsGuaranteed = 64
  /// Open requests that a team may hold, as a multiple of those still free without the reserve: one alone gets eight
  /// ninths of them, and sixteen seventeenths with connections that have few.
  public static let openRequestsPerFree = 8
  /// Requests that one worker keeps for reuse: a full connection's worth.
  public static let pooledRequests = 1024
  /// The same of an acceptor: its peers open one stream each, unless they attack.
  public static let pooledUntrustedRequests = 128
  /// Bytes of a header list beyond which a request is reset instead of being answered with 431.
  public static let headerListResetBytes = 8 * headerListBytes
  /// Bytes of names and values that one header block may expand to. Up to this limit a block is decoded, because later
  /// blocks need its table entries; beyond it the connection is closed. Only a block that repeats long table entries
  /// reaches it: literals are bounded by the number of CONTINUATION frames.
  public static let headerBlockBytes = 8 * headerListResetBytes
  /// Bytes of a header block, decoded and beyond the limit of a header list, that count as one frame without progress.
  public static let headerBytesPerFrame = 1000
  /// Bytes of a request's body that are read and discarded before it is answered with 413 and reset.
  public static let discardedBodyBytes = 1 << 20
  /// Streams that were refused or reset as malformed and whose RST_STREAM the peer has not read yet.
  public static let pendingResets = 1000
  /// Reset streams whose late frames are still recognised: as many as a client can have open.
  public static let rememberedResets = concurrentStreams
  /// Runs of skipped stream numbers that are remembered, 8 bytes each. Older ones count as skipped together with all
  /// streams before them.
  public static let rememberedSkips = 32
  /// CONTINUATION frames after one HEADERS: a header list of 8,000 bytes fits into one frame.
  public static let continuationFrames = 8
  /// Requests that a client may cancel in a burst: as many as it can have open, as after a timeout of its own. Each
  /// answered request restores one, so a client that cancels less than half of its requests never reaches this bound.
  public static let resetBurst = concurrentStreams
  /// Of those, how many are restored each second.
  public static let resetsPerSecond = 100
  /// Frames without progress of a request (PING, PRIORITY, WINDOW_UPDATE, SETTINGS, unknown ones, tiny DATA) in a
  /// burst. Libraries that open with a tree of PRIORITY frames send a dozen.
  public static let idleFrameBurst = 1000
  /// Of those, how many are restored each second: a hundred times what a keep-alive needs.
  public static let idleFramesPerSecond = 100
  /// Of those, how many each request restores: PRIORITY, an empty last DATA, WINDOW_UPDATE for stream and connection.
  public static let idleFramesPerRequest = 4
  /// DATA frames shorter than this (bytes) count as frames without progress: a body of many such frames costs more
  /// than it carries.
  public static let smallDataBytes = 16
  /// Frames that a SETTINGS frame counts as: it is answered, and may affect every open stream.
  public static let settingsFrameCost = 4
  /// Bytes of a SETTINGS frame that count as one more frame: eight settings, as many as RFC 9113 and its usual
  /// extensions define.
  public static let settingsBytesPerFrame = 48
  /// Bytes of a response body that a client keeps. Those of APNs are below 100; a request for a longer one, such as a
  /// list of channels, has a limit of its own.
  public static let answerBytes = 4096
  /// Bytes of the values of a response's known fields that a client keeps; a response of APNs has about 100.
  public static let answerFieldBytes = 1024
  /// Interim responses (1xx) to one request; services of this kind send none.
  public static let interimAnswers = 16
  /// Bytes of a GOAWAY's debug data that a client keeps.
  public static let goAwayDebugBytes = 1024
  /// PING and SETTINGS acknowledgements queued for a peer that does not read.
  public static let pendingAcknowledgements = 1000

  // MARK: Storage

  /// Notifications of one app stored for one device, where the app's retention asks for more than the newest. A tenth
  /// of what a session holds, so that one app does not crowd out the other apps of the device.
  public static let retainedNotifications = 100

  /// The longest time in seconds that a notification is stored. "Viewing the status of push notifications": 30 days.
  public static let storageSeconds: Int64 = 30 * 24 * 3600

  /// Expired notifications of offline devices that are removed from the store each second: a read and a deletion each.
  public static let expiredPerSecond = 2000

  /// Megabytes (2^20 bytes) of the ledger with a memory store: an eighth of such a store.
  public static let ledgerMegabytesInMemory = 32

  // MARK: Courier

  /// Bytes of a courier frame's fields. A filter of 2,000 topics is 46 KB.
  public static let courierFrameBytes = 65536
  /// Seconds from the handshake to the first frame.
  public static let courierConnectSeconds = 10
  /// Seconds from the connect response to the first filter.
  public static let courierFilterSeconds = 30
  /// Seconds without any frame, unless the device asked for another interval.
  public static let courierIdleSeconds = 1800
  /// Seconds of silence after which a device with nothing pending becomes dormant, a row of a table. Its notifications
  /// are acknowledged and have left their commit group after one; a device in use, which sends something every few
  /// seconds, must not pay for waking up.
  public static let courierDormantSeconds = 10
  /// Seconds with unacknowledged notifications and no other traffic.
  public static let courierAcknowledgeSeconds = 60
  /// Unacknowledged notifications on a connection. The protocol has no flow control of its own.
  public static let courierWindowFrames = 32
  /// The same in bytes of payload.
  public static let courierWindowBytes = 128 * 1024
  /// Notifications queued behind the window of a connected device before its providers are held back.
  public static let courierQueueFrames = 1024
  /// The same including those whose providers have been held back for long enough: bursts of 16 providers. Beyond it
  /// binary connections are not read until there is space, and HTTP/2 requests wait for it for a limited time.
  public static let courierCrowdedFrames = 16_384
  /// Unanswered HTTP/2 requests that wait for one connected device; further ones are answered 503. More than
  /// `openRequests` of two workers, so ten connections with all their streams fit. Frames of the binary interface are
  /// bounded by `binaryWindowFrames` for each connection.
  public static let heldBackNotifications = 65_536
  /// Megabytes (2^20 bytes) of memory for notifications in the whole service; the default. Full queues of a hundred
  /// devices, each of the largest payloads.
  public static let memoryMegabytes = 512
  /// The share of the free memory that the queue of one device may take before its providers are held back: 1/64. One
  /// device alone never reaches it; 300 stuck ones together leave a sixth free for the others.
  public static let queuesPerFreeMemory = 64
  /// The factor by which a queue with overdue notifications may exceed that share, as `courierCrowdedFrames` exceeds
  /// `courierQueueFrames`.
  public static let crowdedQueueShares = courierCrowdedFrames / courierQueueFrames
  /// Undecided notifications of a provider connection for each notification of the largest payload that fits into a
  /// queue's share, so that the limit on queues takes effect first.
  public static let undecidedPerQueued = 4
  /// Undecided notifications guaranteed to each provider connection however scarce memory is.
  public static let undecidedGuaranteed = 16
  /// Milliseconds for which a provider is held back while the device's queue still has crowded room. On a binary
  /// connection, a device that acknowledges slowly delays what follows a window of its frames by this much. Providers
  /// were seen to give up after 10 s and more.
  public static let heldBackMilliseconds: UInt64 = 5_000
  /// Milliseconds for which an HTTP/2 request is held back once the crowded queue is full, although the device
  /// acknowledges; then it is answered 503. Below `answerSeconds`, whose 503 could not tell that nothing was accepted.
  public static let heldBackAtMostMilliseconds: UInt64 = 20_000
  /// Milliseconds without an acknowledgement, while one is due, after which a device counts as stalled: HTTP/2
  /// requests that find its queue full are answered 429, and frames of the binary interface crowd into it at once. A
  /// connection that loses packets needs some seconds (RFC 6298: the first retransmissions wait for 1, 2 and 4 s).
  public static let courierStallMilliseconds: UInt64 = 10_000
  /// The same after which it counts as unresponsive: what is accepted from then on, and no longer fits into its crowded
  /// queue, is handled as for an offline device. Until then the frames are not accepted, and the binary connection
  /// with what follows them is not read. As long as a silent device stays connected (`courierAcknowledgeSeconds`).
  public static let courierUnresponsiveMilliseconds = 1000 * UInt64(courierAcknowledgeSeconds)
  /// Milliseconds after which notifications held for an idle device are sent as a burst of their own.
  public static let burstMilliseconds: UInt64 = 300_000
  /// Background pushes of one app to an idle device, as a burst and per hour. "Pushing background updates to your
  /// App": at most two or three an hour.
  public static let backgroundPushesPerHour = 3
  /// Takeovers of one device in a minute: two holders of one identity would otherwise evict each other for ever.
  public static let courierTakeoversPerMinute = 10
  /// Connections that may end before the device acknowledges a notification sent on them; after the last one the
  /// notification is set aside. The courier protocol names no number, only that a poison message must not loop. As
  /// many as the takeovers of a device in a minute, so that a device which keeps losing its radio is not affected.
  public static let unacknowledgedEnds = 10
  /// The number of such ends from which the notification is sent alone, so that it can be identified as the cause.
  public static let unacknowledgedEndsTogether = 3
  /// Topics in all lists of one filter.
  public static let courierFilterTopics = 2048
  /// Bytes of padding in a flush frame or its answer: the most that clients were seen to request.
  public static let courierFlushPaddingBytes = 512
  /// Seconds by which the clock in a signed nonce may differ.
  public static let courierNonceSeconds: Int64 = 300

  /// Topics that the devices of one worker dropped and whose tokens will die soon.
  public static let droppedTopics = 65_536
  /// Devices of one worker that wait for a failing store, beyond which a token whose death is told is not recorded as
  /// dead: if the clock is set back, it may live again.
  public static let invalidationsWaiting = 1024

  // MARK: Enrolment

  /// Valid certificates of one device at a time: the current one and the next.
  public static let certificatesPerDevice = 2

  /// Bytes of a certificate request (PKCS#10). One with RSA 4096 and a few attributes has 1,300.
  public static let certificateRequestBytes = 8192
  /// Bits of a device's RSA key: checking a signature by a larger one costs too much.
  public static let deviceRSABits = 4096
  /// Bytes of a device's name. RFC 5280, appendix A: `ub-common-name`.
  public static let deviceNameBytes = 64
  public static let deviceTagBytes = 64
  public static let tagsPerDevice = 16
  /// Bytes of an enrolment code as typed: twice the code's length, for users who insert spaces.
  public static let enrolmentCodeBytes = 64
  /// Devices that one code may enrol.
  public static let enrolmentCodeUses = 100
  /// Codes that exist at a time.
  public static let enrolmentCodes = 10_000
  /// Seconds that a code is kept after its expiry, so that a device whose answer was lost gets it again.
  public static let enrolmentCodeKeptSeconds: Int64 = 7 * 24 * 3600
  /// Requests that wait for the operator at a time, for each kind: without a code, with a code, and for renewal. More
  /// than anybody decides about by hand.
  public static let pendingEnrolments = 1000
  /// Of those without a code, how many one address (or /64 of IPv6) may have.
  public static let pendingEnrolmentsPerAddress = 50
  /// Seconds that such a request is kept, decided or not.
  public static let pendingEnrolmentSeconds: Int64 = 14 * 24 * 3600
  /// Seconds after which a device asks again whether it was approved: the first interval and the longest.
  public static let enrolmentRetrySeconds: ClosedRange<Int64> = 5...600
  /// Rejected or newly pending requests of one address (or /64) in a burst. A code has 128 random bits, so this limits
  /// load, not guessing.
  public static let enrolmentFailuresPerAddress = 20
  /// Of those, how many are restored each minute.
  public static let enrolmentFailuresPerAddressPerMinute = 10
  /// Addresses whose failures are remembered.
  public static let enrolmentAddresses = 16_384
  /// Requests of all devices in a burst: each costs two signatures and some syncs of the disk.
  public static let enrolments = 500
  /// Of those, how many are restored each second.
  public static let enrolmentsPerSecond = 50
  /// Requests queued for the thread that decides on them.
  public static let enrolmentQueue = 256
  /// Seconds from a request to its answer.
  public static let enrolmentSeconds = 30
  /// Requests for renewal on one connection in a burst; one is restored each hour.
  public static let renewalsPerConnection = 3

  // MARK: Administration

  /// Milliseconds that a change of the data directory waits for another one. The longest, a rotation, creates an RSA
  /// key and syncs some ten files: less than two seconds on a slow disk.
  public static let directoryLockMilliseconds = 10_000

  /// Administration tokens that may exist.
  public static let adminTokens = 256
  /// Bytes of a token's name.
  public static let adminNameBytes = 64
  /// Failed attempts of one address (or /64) that are answered without delay.
  public static let failuresAnsweredAtOnce = 3
  /// Milliseconds for which the answer to the next one is delayed; doubled for each further one.
  public static let firstHoldMilliseconds: Int64 = 100
  /// Failed attempts after which the address is refused without a check.
  public static let failuresUntilRefused = 10
  /// Seconds of the first such refusal; doubled for each further failure, up to a factor of 32.
  public static let firstRefusalSeconds: Int64 = 30
  /// Seconds after which one failure is forgotten.
  public static let failureForgivenSeconds: Int64 = 60
  /// Addresses whose failures are remembered.
  public static let guardedAddresses = 4096
  /// Lines per response of the administration, from the ledger or the audit log.
  public static let adminPageLines = 1000

  /// Devices examined for one page of a query's matches.
  public static let adminPageDevicesSearched = 10_000

  /// Test pushes of the administration in a burst; one is restored each second.
  public static let testPushesAtOnce = 60
  /// Seconds after which the sender of a test push learns that it is still undecided.
  public static let testPushSeconds = 10

  // MARK: Log

  /// Seconds between two log lines that report how often an event repeated.
  public static let reportSeconds = 10
  /// Log lines of one kind that an untrusted peer can cause in one window. Enough to see a pattern; a flood leaves
  /// 30,000 lines of a kind in a day, about 4 MB.
  public static let logLinesPerWindow = 20
  /// Seconds of such a window.
  public static let logWindowSeconds = 60

  // MARK: Connections

  /// Seconds over which handshake steps are counted to detect a crowd. Longer than a device takes to become dormant,
  /// so that memory its connection no longer needs is free by the end of the crowd.
  public static let crowdSeconds = 12
  /// Steps in that time after which the freed memory is worth returning to the system.
  public static let handshakesOfCrowd = 1_000
  /// Seconds for a TLS handshake.
  public static let handshakeSeconds = 10
  /// Bytes waiting to be written to one connection before reading from it stops.
  public static let outputHighWaterBytes = 256 * 1024
  /// Seconds without progress of a write after which the peer counts as stalled.
  public static let writeStallSeconds = 30
}
