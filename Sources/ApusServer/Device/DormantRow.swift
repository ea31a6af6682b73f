import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusWire

/// A quiet device: all that its objects know which cannot be had again from elsewhere.
struct DormantRow {
  /// Meaningless where the object is kept; see `DormantRest.tls`.
  var tls: DormantTLS?
  /// By which its loop knows its socket.
  var socket: Int32
  /// Place in the table's list of doors.
  var door: UInt16
  var dialect: CourierALPN
  var power: PowerState

  // Of the connection.
  var peer: SocketAddress
  /// Second at which the wheel comes to it next. The seconds are those of the worker's clock, which counts from the
  /// start of the machine.
  var watchedSeconds: UInt32
  var lastFrameSeconds: UInt32
  var idleSeconds: UInt32
  var acceptedMilliseconds: UInt64
  var skippedFrames: UInt32
  var authorityGeneration: UInt32
  var baseToken: DeviceToken
  var certificate: CertificateStanding?
  /// Since when the certificate of the handshake is valid, Unix seconds; nil where there was none.
  private var notBefore: Int64?
  private var name: DormantName

  // Of the device.
  var key: DeviceKey
  var issuedSeconds: Int64
  private var fingerprint: KeyFingerprint
  private var takeovers: RateLimit.Bucket
  private var topicCount: UInt8
  private var topics: InlineArray<3, DormantTopic>

  /// What few have.
  var rest: DormantRest?

  /// - Parameters:
  ///   - socket: By which the loop knows the socket, once it is parked.
  ///   - now: On the worker's clock.
  init(_ courier: CourierConnection, _ device: Device, door: UInt16, atMilliseconds now: Int64) {
    let connection = courier.connection
    tls = connection.tls.dormant()
    socket = -1
    self.door = door
    dialect = courier.dialect
    power = device.session?.power ?? .active
    peer = connection.peer
    watchedSeconds = UInt32(clamping: connection.watchedSeconds)
    lastFrameSeconds = UInt32(clamping: courier.lastFrameSeconds)
    idleSeconds = UInt32(clamping: courier.idleSeconds)
    acceptedMilliseconds = connection.acceptedMilliseconds
    skippedFrames = UInt32(clamping: courier.skippedFrames)
    authorityGeneration = courier.authorityGeneration
    baseToken = courier.baseToken
    certificate = courier.certificate
    notBefore = courier.presented?.notBefore
    name = DormantName(courier.presented?.commonName)
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
      && courier.issuing == nil
    guard !isPlain else { return }
    rest = DormantRest(
      tls: tls == nil ? connection.tls : nil,
      name: name.isWhole ? nil : courier.presented?.commonName,
      topics: all.count > topics.count ? all : nil, backgroundPushes: pushes,
      issuing: courier.issuing)
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

  /// Gives a new object what it knew before.
  func restore(_ device: Device, slot: Int32) {
    device.wake(power: power, slot: slot)
    if fingerprint != .none { device.keyFingerprint = fingerprint.bytes }
    device.issuedSeconds = issuedSeconds
    device.takeovers = takeovers
    if let pushes = rest?.backgroundPushes { device.backgroundPushes = pushes }
  }
}

/// What few quiet devices have, and which takes memory of its own.
final class DormantRest {
  /// The connection where it is no compact one.
  let tls: TLSConnection?
  /// The name in the certificate where it is long.
  let name: String?
  /// All topics where they are many.
  let topics: [TopicRegistration]?
  /// Those of `Device.backgroundPushes` that are not full.
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
  /// The state's raw value, and whether the topic was listed once.
  private var state: UInt8 = 0
  private var generation: UInt16 = 0
  private var stateSinceMilliseconds: Int64 = 0
  private var generationSinceMilliseconds: Int64 = 0

  private static let listed: UInt8 = 0x80

  /// One that is not there.
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

/// A certificate's common name in place: a string of more than 15 bytes would have memory of its own, and such small
/// pieces, when all around them was given back, keep the whole pages in which they lie. An UUID fits.
private struct DormantName {
  private var bytes = InlineArray<38, UInt8>(repeating: 0)
  /// `none` for no name, `elsewhere` for one that is too long.
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

  /// Whether it stands here, or there is none.
  var isWhole: Bool { count != Self.elsewhere }

  var text: String? {
    guard count < Self.elsewhere else { return nil }
    return String(decoding: (0..<Int(count)).map { bytes[$0] }, as: UTF8.self)
  }
}
