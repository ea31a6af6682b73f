/// Every bound of the service in one place, with its unit and where the number comes from.
///
/// At a limit there is a defined answer (an error that the protocol has, or a close), never growth and never silence.
public enum Limits {
  // MARK: Provider API

  /// Bytes of a payload. "Generating a remote notification": 4 KB.
  public static let payloadBytes = 4096
  /// Bytes of a VoIP payload. Same source: 5 KB.
  public static let voipPayloadBytes = 5120
  /// Bytes of `apns-collapse-id`. "Sending notification requests to APNs".
  public static let collapseIDBytes = 64
  /// Bytes of a topic: what a bundle id may have (255 as in a file name), with room for the longest suffix.
  public static let topicBytes = 280
  /// Binary bytes of a device token in a request path. Apple's binary interface: "up to 100 bytes".
  public static let deviceTokenBytes = 100
  /// SETTINGS_MAX_HEADER_LIST_SIZE as APNs announces it.
  public static let headerListBytes = 8000
  /// SETTINGS_MAX_CONCURRENT_STREAMS as APNs announces it once a provider is trusted.
  public static let concurrentStreams = 1000
  /// The same until a first request carried a valid provider token.
  public static let concurrentStreamsUntrusted = 1
  /// Streams that a client may open before it has acknowledged SETTINGS, which tells it the limit; later ones are
  /// refused, which is safe to repeat. RFC 9113, section 6.5.2, advises against limits below 100, and clients that do
  /// not wait were seen to open 40.
  public static let streamsBeforeSettings = 256
  /// Nested containers in a payload. Apple names no bound; real payloads stay below ten.
  public static let payloadDepth = 64
  /// Seconds for which a request may be on its way in, from its first header to its last byte. Slower ones are cut.
  public static let requestSeconds = 10
  /// Seconds from a request's first header to its answer, whatever the store does: as long as pushy's users wait.
  public static let answerSeconds = 30
  /// Requests to one device token at once, before it is answered 429, where the operator says nothing else. Apple
  /// publishes no figure; this is generous.
  public static let requestsPerToken = 10_000
  /// The same, that come back each second.
  public static let requestsPerTokenPerSecond = 1_000
  /// Refused requests on one connection, of which those for a bad device token count twice and 410 not at all, before
  /// it is ended. "Too many errors end in disconnection"; no figure is published.
  public static let errorsPerConnection = 10_000
  /// The same, that are forgiven each second.
  public static let errorsPerConnectionPerSecond = 100
  /// Seconds without a request after which a provider's connection is closed. "Connections are meant to live hours".
  public static let providerIdleSeconds = 3600
  /// Seconds within which an HTTP/2 client has to show a valid credential; then its connection is closed. Clients that
  /// connect ahead of their first push find a new connection as they do after an idle one.
  public static let untrustedConnectionSeconds = 60
  /// Seconds for which each step of a drain waits for a client at most.
  public static let drainGapSeconds = 10
  /// Seconds that a drain waits for a moment without open streams before the next answer announces it; and those that a
  /// client has to answer the PING behind that.
  public static let drainPatienceSeconds = 1
  /// Seconds that a provider has left for its handshake when the service stops. A handshake takes two round trips.
  public static let drainHandshakeSeconds: UInt64 = 2
  /// Milliseconds for which devices are waited for when the service stops, before its providers are told. The operator
  /// expects a restart of seconds.
  public static let deviceDrainMilliseconds: Int64 = 1500
  /// Seconds in which a device may acknowledge what it was sent before the service stopped.
  public static let drainAcknowledgeSeconds: UInt64 = 1
  /// Devices that each worker tells in a millisecond that the service stops: each costs some ten microseconds, and
  /// providers are served meanwhile.
  public static let devicesDrainedAtOnce = 64
  /// Milliseconds over which devices come back for each one that was connected: a worker completes some 500 handshakes
  /// in a second.
  public static let reconnectMillisecondsPerDevice: UInt64 = 2
  /// The same for all of them: at least, so that few devices do not come in one moment either, and at most.
  public static let reconnectSpreadMilliseconds: ClosedRange<UInt64> = 500...60_000
  /// Bytes of a provider token (a JWT of two short JSON objects and a signature is below 300).
  public static let providerTokenBytes = 2048
  /// Seconds of a provider token's life. "Establishing a token-based connection to APNs": one hour.
  public static let providerTokenSeconds: Int64 = 3600
  /// Seconds by which a provider token may have been issued in the future, for providers whose clocks run ahead. The
  /// same page says nothing of that: with an hour a token would live for two. Clocks that are set by NTP differ by less
  /// than a second, and those that are not are told by how much.
  public static let providerTokenAheadSeconds: Int64 = 120
  /// Seconds between two provider tokens on a connection. Same source: 20 minutes.
  public static let providerTokenRefreshSeconds: Int64 = 1200
  /// Team-scoped keys of a team in one environment. Same source.
  public static let teamKeysPerEnvironment = 2
  /// Topic-specific keys of a team in one environment. Same source.
  public static let topicKeysPerEnvironment = 200
  /// Topics of a topic-specific key. Same source.
  public static let topicsPerKey = 400

  // MARK: Binary provider interface

  /// Bytes of a payload on the binary interface. "Binary Provider API", Table A-1: 2 KB since 2014. Old senders use as
  /// many with commands 0 and 1, whose page says 256.
  public static let binaryPayloadBytes = 2048
  /// Bytes of a payload of commands 0 and 1, to the letter of "Simple Notification Format".
  public static let binarySimplePayloadBytes = 256
  /// Bytes of a VoIP payload on the binary interface: what senders with VoIP certificates allow themselves.
  public static let binaryVoIPPayloadBytes = 4096
  /// Bytes of a command 2 frame behind its header: two items of the most bytes that a u16 can say, and small ones.
  public static let binaryFrameBytes = 131_072
  /// Undecided notifications of one connection beyond which nothing more is read from it. One read may bring as many
  /// again: 64 KB of the smallest frames.
  public static let binaryWindowFrames = 2048
  /// Seconds for which a frame may be on its way in, from its first byte to its last.
  public static let binaryFrameSeconds = 60
  /// Seconds without a notification after which a binary connection is closed. Senders keep one open all day.
  public static let binaryIdleSeconds = 24 * 3600
  /// Milliseconds between the last bytes and close_notify. Clients whose read returns data together with the end of
  /// the stream drop the data: 15 of 25 runs without a pause, none of 25 with this one.
  public static let lastWordsMilliseconds: UInt64 = 30
  /// Milliseconds over which a shutdown spreads the ends of a worker's binary connections, at most.
  public static let binaryDrainSpreadMilliseconds: UInt64 = 500
  /// Tuples of one write of the feedback service: 988 bytes. Some readers lose what comes in larger records.
  public static let feedbackTuplesPerWrite = 26
  /// Tuples that one connection to the feedback service is given; the next connection gets those that follow.
  public static let feedbackTuplesPerConnection = 100_000
  /// Seconds that a reader of feedback has to close its side: from when its system has everything; and that this may
  /// take, from when everything was written.
  public static let feedbackTakenSeconds = 10

  /// Days after which pushes to a dead token are counted against its provider. Senders were advised to read the
  /// feedback list once a day ("Binary Provider API", The Feedback Service).
  public static let deadTokenDays: Int64 = 1

  // MARK: HTTP/2 connections

  /// Bytes that a connection's requests may have in flight: a payload for each of its streams.
  public static let connectionWindowBytes = concurrentStreams * payloadBytes
  /// Requests that the connections of one worker may have open; streams above are refused. One takes 9 to 14 KB.
  public static let openRequests = 16384
  /// Of those, what the connections share that have not shown a valid credential: clients that open streams before they
  /// know the limit, a full connection of them twice.
  public static let openRequestsUntrusted = 2048
  /// Of them, what is kept for trusted connections that have few open; half of it also for first requests of others.
  public static let openRequestsReserved = 4096
  /// Requests that each trusted connection may have open however many others have: what is reserved lasts for 32
  /// to 64 connections that all have so many at once.
  public static let openRequestsGuaranteed = 64
  /// Requests kept for reuse by one worker: a full connection's worth.
  public static let pooledRequests = 1024
  /// Bytes of a header list beyond which a request is no longer answered with 431 but reset.
  public static let headerListResetBytes = 8 * headerListBytes
  /// Bytes of names and values that one header block may expand to. Up to here a block is decoded, because later blocks
  /// need its table entries; beyond it the connection ends. Only a block that names long table entries again and again
  /// gets there: literals, which the number of CONTINUATION frames bounds, do not.
  public static let headerBlockBytes = 8 * headerListResetBytes
  /// Bytes that a header block expands to, beyond what a header list may have, that count as a frame that brings no
  /// request forward.
  public static let headerBytesPerFrame = 1000
  /// Bytes of a request's body that are read and thrown away before it is answered with 413 and cut off.
  public static let discardedBodyBytes = 1 << 20
  /// Streams that a peer was refused, or lost by malformed requests, and whose RST_STREAM it has not taken yet.
  public static let pendingResets = 1000
  /// Streams that were reset and of which late frames are recognised: all that a client can have open.
  public static let rememberedResets = concurrentStreams
  /// CONTINUATION frames behind one HEADERS: a header list of 8,000 bytes fits into one frame.
  public static let continuationFrames = 8
  /// Requests that a client may take back at once: all that it can have open, as after a timeout of its own. Each
  /// answered request gives one back, so that a client which lets more than half of its requests be answered never
  /// meets this bound.
  public static let resetBurst = concurrentStreams
  /// The same, that come back each second.
  public static let resetsPerSecond = 100
  /// Frames that bring no request forward (PING, PRIORITY, WINDOW_UPDATE, SETTINGS, unknown ones, tiny DATA), at once.
  /// Libraries that open with a tree of PRIORITY frames send a dozen.
  public static let idleFrameBurst = 1000
  /// The same, that come back each second: a hundred times what a keep-alive needs.
  public static let idleFramesPerSecond = 100
  /// The same, that each request brings: PRIORITY, an empty last DATA, WINDOW_UPDATE for stream and connection.
  public static let idleFramesPerRequest = 4
  /// DATA frames shorter than this (bytes) count as such frames: a body of many of them costs more than it says.
  public static let smallDataBytes = 16
  /// What a SETTINGS frame counts: it is answered, and may touch every open stream.
  public static let settingsFrameCost = 4
  /// Bytes of a SETTINGS frame that count as one more such frame: eight settings, as many as RFC 9113 and its usual
  /// extensions define.
  public static let settingsBytesPerFrame = 48
  /// Bytes of an answer's body that a client keeps. APNs' are below 100, those of channel requests below 4 KB.
  public static let answerBytes = 4096
  /// Bytes of the values of an answer's listed fields that a client keeps; an answer of APNs has about 100.
  public static let answerFieldBytes = 1024
  /// Bytes of a GOAWAY's debug data that a client keeps.
  public static let goAwayDebugBytes = 1024
  /// Answers to PING and SETTINGS that wait for a peer that does not read.
  public static let pendingAcknowledgements = 1000

  // MARK: Storage

  /// Notifications of one app that wait for one device, where the app's retention asks for more than the newest. A
  /// tenth of what a session holds, so that one app does not crowd out the others of its device.
  public static let retainedNotifications = 100

  /// Seconds for which a notification is kept at most. "Viewing the status of push notifications": 30 days.
  public static let storageSeconds: Int64 = 30 * 24 * 3600

  /// Expired notifications of absent devices that are taken out of the store in a second: a read and a deletion each.
  public static let expiredPerSecond = 2000

  /// Megabytes (2^20 bytes) of the ledger where the store is in memory, an eighth of such a store.
  public static let ledgerMegabytesInMemory = 32

  // MARK: Courier

  /// Bytes of a courier frame's fields. A filter of 2,000 topics is 46 KB.
  public static let courierFrameBytes = 65536
  /// Seconds from the handshake to the first frame.
  public static let courierConnectSeconds = 10
  /// Seconds from the connect response to the first filter.
  public static let courierFilterSeconds = 30
  /// Seconds without any frame, where the device asked for no other interval.
  public static let courierIdleSeconds = 1800
  /// Seconds of silence after which a device that nothing waits for is kept as a row of a table. Its notifications are
  /// acknowledged and in no group any more after one; a device in use, which says something every few seconds, is not
  /// to pay for being woken.
  public static let courierDormantSeconds = 10
  /// Seconds with unacknowledged notifications and no other traffic.
  public static let courierAcknowledgeSeconds = 60
  /// Unacknowledged notifications on a connection; the protocol has no flow control of its own.
  public static let courierWindowFrames = 32
  /// The same in bytes of payload.
  public static let courierWindowBytes = 128 * 1024
  /// Notifications that wait behind the window of a connected device before providers are held back.
  public static let courierQueueFrames = 1024
  /// The same at most, with those whose providers have been held back for long enough: 16 senders' bursts. Behind it
  /// more is treated as for a device that is away, and HTTP/2 requests are answered 429.
  public static let courierCrowdedFrames = 16_384
  /// Requests of the HTTP/2 interface that wait for one connected device without being answered; further ones are
  /// answered 429. More than `openRequests` of two workers, so that ten connections with all their streams have room.
  /// Frames of the binary interface are bounded by `binaryWindowFrames` for each connection.
  public static let heldBackNotifications = 65_536
  /// Megabytes (2^20 bytes) that notifications may take in memory in the whole service, where the operator says nothing
  /// else: full queues of a hundred devices, each of the largest payloads.
  public static let memoryMegabytes = 512
  /// Of the memory that is still free, the share that the queue of one device may take before its providers are held
  /// back: 1/64. One device alone never meets it; 300 stuck ones together leave a sixth free for the others.
  public static let queuesPerFreeMemory = 64
  /// By how much a queue with overdue notifications may exceed that share, as `courierCrowdedFrames` exceeds
  /// `courierQueueFrames`.
  public static let crowdedQueueShares = courierCrowdedFrames / courierQueueFrames
  /// Undecided notifications of a provider connection for each one of the largest payload that fits into a queue's
  /// share, so that providers are slowed down after the queues.
  public static let undecidedPerQueued = 4
  /// Undecided notifications that each provider connection may have however scarce memory is.
  public static let undecidedGuaranteed = 16
  /// Milliseconds for which a provider is held back while the device's queue can be crowded. So long does a device that
  /// acknowledges slowly delay what stands behind a window of its frames on a binary connection. Providers were seen to
  /// give up after 10 s and more.
  public static let heldBackMilliseconds: UInt64 = 5_000
  /// The same where the queue is crowded to the full: below `answerSeconds`.
  public static let heldBackAtMostMilliseconds: UInt64 = 20_000
  /// Milliseconds without an acknowledgement, while one is due, after which a device makes no progress: HTTP/2 requests
  /// that find its queue full are answered 429, and frames of the binary interface no longer wait. A connection that
  /// loses packets needs some seconds (RFC 6298: the first retransmissions wait for 1, 2 and 4 s).
  public static let courierStallMilliseconds: UInt64 = 10_000
  /// Milliseconds after which what is held for an idle device is a burst of its own.
  public static let burstMilliseconds: UInt64 = 300_000
  /// Background pushes of one app to a device that nobody uses, at once and in an hour. "Pushing background updates to
  /// your App": not more than two or three an hour.
  public static let backgroundPushesPerHour = 3
  /// Takeovers of one device in a minute: two holders of one identity would otherwise fight for ever.
  public static let courierTakeoversPerMinute = 10
  /// Connections that may end before the device acknowledges a notification that it was sent; with the last of them the
  /// notification is set aside. The courier protocol names no number, only that a poison message must not loop. As many
  /// as a device may take over in a minute: one that loses its radio again and again is not meant.
  public static let unacknowledgedEnds = 10
  /// The same, from which on the notification is sent by itself, so that the ends of a connection are laid to it alone.
  public static let unacknowledgedEndsTogether = 3
  /// Topics in all lists of one filter.
  public static let courierFilterTopics = 2048
  /// Bytes of padding in a flush frame or its answer: the most that clients were seen to ask for.
  public static let courierFlushPaddingBytes = 512
  /// Seconds by which the clock in a signed nonce may be off.
  public static let courierNonceSeconds: Int64 = 300

  /// Topics that the devices of one worker dropped and whose tokens are about to die.
  public static let droppedTopics = 65_536

  // MARK: Enrolment

  /// Certificates of one device that are valid at a time: the one that it uses, and the next.
  public static let certificatesPerDevice = 2

  /// Bytes of a certificate request (PKCS#10). One with RSA 4096 and a few attributes has 1,300.
  public static let certificateRequestBytes = 8192
  /// Bits of an RSA key that a device may bring: checking a signature of a larger one costs more than it is worth.
  public static let deviceRSABits = 4096
  /// Bytes of a device's name. RFC 5280, appendix A: `ub-common-name`.
  public static let deviceNameBytes = 64
  /// Bytes of a one-time code as it was typed: twice what the code has, for those who put spaces between.
  public static let enrolmentCodeBytes = 64
  /// Devices that one code may make.
  public static let enrolmentCodeUses = 100
  /// Codes that are kept at a time.
  public static let enrolmentCodes = 10_000
  /// Seconds for which a code is kept after its time, so that a device whose answer was lost gets it again.
  public static let enrolmentCodeKeptSeconds: Int64 = 7 * 24 * 3600
  /// Requests that wait for the operator at a time: of strangers, of those with a code, and of devices that renew,
  /// each. More than anybody decides about by hand.
  public static let pendingEnrolments = 1000
  /// Those of strangers from one address, or from one /64 of IPv6.
  public static let pendingEnrolmentsPerAddress = 50
  /// Seconds for which one of them is kept, decided or not.
  public static let pendingEnrolmentSeconds: Int64 = 14 * 24 * 3600
  /// Seconds after which a device asks again whether it was approved: at first, and when it waits for long.
  public static let enrolmentRetrySeconds: ClosedRange<Int64> = 5...600
  /// Refused or newly pending requests of one address (or /64) at once. A code has 128 random bits: what is slowed down
  /// is the noise.
  public static let enrolmentFailuresPerAddress = 20
  /// The same, that come back each minute.
  public static let enrolmentFailuresPerAddressPerMinute = 10
  /// Addresses whose failures are remembered.
  public static let enrolmentAddresses = 16_384
  /// Requests of all devices at once: each costs two signatures and some syncs of the disk.
  public static let enrolments = 500
  /// The same, that come back each second.
  public static let enrolmentsPerSecond = 50
  /// Requests that wait for the thread that decides on them.
  public static let enrolmentQueue = 256
  /// Seconds from a request to its answer.
  public static let enrolmentSeconds = 30
  /// Requests for renewal on one connection at once; one comes back each hour.
  public static let renewalsPerConnection = 3

  // MARK: Administration

  /// Milliseconds that a change of the data directory waits for another one. The longest, a rotation, makes an RSA key
  /// and syncs some ten files: less than two seconds on a slow disk.
  public static let directoryLockMilliseconds = 10_000

  /// Tokens for the administration that there may be.
  public static let adminTokens = 256
  /// Bytes of a token's name.
  public static let adminNameBytes = 64
  /// Failed attempts of one address (or /64) that are answered at once.
  public static let failuresAnsweredAtOnce = 3
  /// Milliseconds for which the answer to the next one is held back; twice as long for each further one.
  public static let firstHoldMilliseconds: Int64 = 100
  /// Failed attempts from which on the address is refused unseen.
  public static let failuresUntilRefused = 10
  /// Seconds for which it is refused then; twice as long for each further failure, up to 32 times.
  public static let firstRefusalSeconds: Int64 = 30
  /// Seconds in which one failure is forgotten.
  public static let failureForgivenSeconds: Int64 = 60
  /// Addresses whose failures are remembered.
  public static let guardedAddresses = 4096
  /// Lines that one answer of the administration has at most, of the ledger or the audit log.
  public static let adminPageLines = 1000

  /// Devices that are looked at for one page of those that match a query.
  public static let adminPageDevicesSearched = 10_000

  /// Pushes of the administration at once; then one a second.
  public static let testPushesAtOnce = 60
  /// Seconds after which whoever sent one learns that nothing was decided.
  public static let testPushSeconds = 10

  // MARK: Log

  /// Seconds between two log lines that say how often the same thing happened.
  public static let reportSeconds = 10
  /// Log lines of one kind that a stranger can cause, in one window. Enough to see a pattern; a flood leaves 30,000
  /// lines of a kind in a day, about 4 MB.
  public static let logLinesPerWindow = 20
  /// Seconds of such a window.
  public static let logWindowSeconds = 60

  // MARK: Connections

  /// Seconds in which the steps of handshakes are counted, to know a crowd by; more than until a device counts as
  /// quiet, so that what its connection no longer needs is free when the crowd has gone by.
  public static let crowdSeconds = 12
  /// Steps in that time after which the memory that they freed is worth giving back to the system.
  public static let handshakesOfCrowd = 1_000
  /// Seconds for a TLS handshake.
  public static let handshakeSeconds = 10
  /// Bytes waiting to be written to one connection before reading from it stops.
  public static let outputHighWaterBytes = 256 * 1024
  /// Seconds without progress of a write after which the peer counts as stuck.
  public static let writeStallSeconds = 30
}
