import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusWire

/// A dormant device: the state of its objects, as far as it cannot be obtained from elsewhere.
struct DormantRow {
  /// Nil if the TLS object is kept; see `DormantRest.tls`.
  var tls: DormantTLS?
  /// The loop's handle of the socket.
  var socket: Int32
  /// Index in the table's list of listeners.
  var listener: UInt16
  var dialect: CourierALPN
  var power: PowerState

  // The connection's state.
  var peer: SocketAddress
  /// Second at which the wheel next checks it. It counts, like `lastFrameSeconds`, on the worker's clock, which starts
  /// at the boot of the machine.
  var watchedSeconds: UInt32
  var lastFrameSeconds: UInt32
  var idleSeconds: UInt32
  var acceptedMilliseconds: UInt64
  var skippedFrames: UInt32
  var authorityGeneration: UInt32
  var baseToken: DeviceToken
  var certificate: CertificateStanding?
  /// Start of validity of the handshake's certificate in Unix seconds; nil if there was no certificate.
  private var notBefore: Int64?
  private var name: DormantName

  // The device's state.
  var key: DeviceKey
  var issuedSeconds: Int64
  private var fingerprint: KeyFingerprint
  private var takeovers: RateLimit.Bucket
  private var topicCount: UInt8
  private var topics: InlineArray<3, DormantTopic>

  /// State that few devices have.
  var rest: DormantRest?

  /// The caller sets `socket` once the loop has the socket as a dormant one.
  ///
  /// - Parameter now: milliseconds of the worker's clock.
  init(
    _ connection: QuietConnection, _ device: Device, listener: UInt16, atMilliseconds now: Int64
  ) {
    tls = connection.tls.dormant()
    socket = -1
    self.listener = listener
    dialect = connection.dialect
    power = device.session?.power ?? .active
    peer = connection.peer
    watchedSeconds = UInt32(clamping: connection.watchedSeconds)
    lastFrameSeconds = UInt32(clamping: connection.lastFrameSeconds)
    idleSeconds = UInt32(clamping: connection.idleSeconds)
    acceptedMilliseconds = connection.acceptedMilliseconds
    skippedFrames = UInt32(clamping: connection.skippedFrames)
    authorityGeneration = connection.authorityGeneration
    baseToken = connection.baseToken
    certificate = connection.certificate
    notBefore = connection.presented?.notBefore
    name = DormantName(connection.presented?.commonName)
    key = device.key
    issuedSeconds = device.issuedSeconds
    let keyFingerprint = device.keyFingerprint
    fingerprint = KeyFingerprint(bytes: keyFingerprint.span) ?? .none
    takeovers = device.takeovers
    let all = device.registration.topics
    topicCount = UInt8(clamping: all.count)
    topics = InlineArray { $0 < all.count ? DormantTopic(all[$0]) : DormantTopic() }
    let pushes = device.backgroundPushes.filter { !$0.value.isFull(atMilliseconds: now) }
    let isPlain =
      tls != nil && name.isWhole && all.count <= topics.count && pushes.isEmpty
      && connection.issuing == nil
    guard !isPlain else { return }
    rest = DormantRest(
      tls: tls == nil ? connection.tls : nil,
      name: name.isWhole ? nil : connection.presented?.commonName,
      topics: all.count > topics.count ? all : nil, backgroundPushes: pushes,
      issuing: connection.issuing)
  }

  /// Second until which it may be silent.
  var silenceSeconds: UInt64 { UInt64(lastFrameSeconds) + UInt64(idleSeconds) }

  var presented: PresentedCertificate? {
    guard let notBefore, let certificate else { return nil }
    return PresentedCertificate(
      notBefore: notBefore, notAfter: certificate.notAfter, commonName: rest?.name ?? name.text)
  }

  var registration: Registration {
    if let all = rest?.topics { return Registration(ordered: all) }
    return Registration(
      ordered: [TopicRegistration](capacity: Int(topicCount)) { all in
        for index in 0..<Int(topicCount) { all.append(topics[index].registration) }
      })
  }

  /// Restores the saved state into a new object.
  func restore(_ device: Device, slot: Int32) {
    device.wake(power: power, slot: slot)
    if fingerprint != .none { device.keyFingerprint = fingerprint.bytes }
    device.issuedSeconds = issuedSeconds
    device.takeovers = takeovers
    if let pushes = rest?.backgroundPushes { device.backgroundPushes = pushes }
  }
}

/// What a row keeps of a device's connection. Times are of the worker's clock.
struct QuietConnection {
  var tls: TLSConnection
  var peer: SocketAddress
  var acceptedMilliseconds: UInt64
  var watchedSeconds: UInt64
  var dialect: CourierALPN
  var lastFrameSeconds: UInt64
  var idleSeconds: UInt64
  var skippedFrames: Int
  var authorityGeneration: UInt32
  var baseToken: DeviceToken
  var certificate: CertificateStanding?
  var presented: PresentedCertificate?
  var issuing: CertificateIssuing?
}

/// State that few dormant devices have, in memory of its own.
final class DormantRest {
  /// The TLS object, if it has no dormant form.
  let tls: TLSConnection?
  /// The certificate's name, if it is too long for the row.
  let name: String?
  /// All topics, if they are too many for the row.
  let topics: [TopicRegistration]?
  /// The buckets of `Device.backgroundPushes` that are not full.
  let backgroundPushes: [TopicKey: RateLimit.Bucket]
  let issuing: CertificateIssuing?

  init(
    tls: TLSConnection?, name: String?, topics: [TopicRegistration]?,
    backgroundPushes: [TopicKey: RateLimit.Bucket], issuing: CertificateIssuing?
  ) {
    self.tls = tls
    self.name = name
    self.topics = topics
    self.backgroundPushes = backgroundPushes
    self.issuing = issuing
  }
}

/// A `TopicRegistration` in 24 bytes instead of 32.
private struct DormantTopic {
  private var app = AppID.base
  private var suffix = TopicSuffix.none
  /// The state's raw value, and in the top bit whether the topic was ever listed.
  private var state: UInt8 = 0
  private var generation: UInt16 = 0
  private var stateSinceMilliseconds: Int64 = 0
  private var generationSinceMilliseconds: Int64 = 0

  private static let listed: UInt8 = 0x80

  /// An unused entry.
  init() {}

  init(_ entry: TopicRegistration) {
    app = entry.topic.app
    suffix = entry.topic.suffix
    state = entry.state.rawValue | (entry.wasListed ? Self.listed : 0)
    generation = entry.generation
    stateSinceMilliseconds = entry.stateSinceMilliseconds
    generationSinceMilliseconds = entry.generationSinceMilliseconds
  }

  var registration: TopicRegistration {
    TopicRegistration(
      topic: TopicKey(app: app, suffix: suffix), generation: generation,
      state: TopicState(rawValue: state & ~Self.listed) ?? .unlisted,
      wasListed: state & Self.listed != 0, stateSinceMilliseconds: stateSinceMilliseconds,
      generationSinceMilliseconds: generationSinceMilliseconds)
  }
}

/// A certificate's common name, stored inline. A string of more than 15 bytes would be a small allocation, and such
/// allocations keep whole pages when everything around them is freed. A UUID fits.
private struct DormantName {
  private var bytes = InlineArray<38, UInt8>(repeating: 0)
  /// The byte count; `none` if there is no name, `elsewhere` if it is too long.
  private var count = Self.none

  private static let none: UInt8 = 255
  private static let elsewhere: UInt8 = 254

  init(_ name: String?) {
    guard let name else { return }
    let text = name.utf8
    guard text.count <= bytes.count else {
      count = Self.elsewhere
      return
    }
    count = UInt8(text.count)
    for (index, byte) in text.enumerated() { bytes[index] = byte }
  }

  /// Whether the name fits here, or there is none.
  var isWhole: Bool { count != Self.elsewhere }

  var text: String? {
    guard count < Self.elsewhere else { return nil }
    return String(decoding: (0..<Int(count)).map { bytes[$0] }, as: UTF8.self)
  }
}
