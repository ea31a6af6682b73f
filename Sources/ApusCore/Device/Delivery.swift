package import ApusModel

/// Where an answer goes: the worker that read the request or the frame, and its identity there.
package struct Answer: Sendable, Equatable {
  package enum Kind: UInt8, Sendable {
    /// A request of the HTTP/2 interface: `slot` is its index in the worker's table of open requests.
    case request
    /// A frame of the binary interface: `slot` is its connection's index in the worker's table.
    case frame
    /// A push of the service's administration: `slot` is its number.
    case testPush
    /// A part of a push to many devices: `slot` is its number, `sequence` the device's place in it.
    case groupPush
    /// A notification that another node admitted: `slot` is the link's index in the worker's table of connections,
    /// `sequence` the number that the other node knows it by.
    case linked
  }

  package var worker: UInt16
  package var kind: Kind
  package var slot: UInt32
  /// Distinguishes successive requests or connections in the same slot.
  package var generation: UInt32
  /// The number of a frame on its connection.
  package var sequence: UInt32

  package init(worker: UInt16, slot: UInt32, generation: UInt32) {
    self.worker = worker
    kind = .request
    self.slot = slot
    self.generation = generation
    sequence = 0
  }

  package init(worker: UInt16, connection: UInt32, generation: UInt32, sequence: UInt32) {
    self.worker = worker
    kind = .frame
    slot = connection
    self.generation = generation
    self.sequence = sequence
  }

  package init(worker: UInt16, link: UInt32, generation: UInt32, number: UInt32) {
    self.worker = worker
    kind = .linked
    slot = link
    self.generation = generation
    sequence = number
  }

  package init(worker: UInt16, groupPush: UInt32, place: UInt32) {
    self.worker = worker
    kind = .groupPush
    slot = groupPush
    generation = 0
    sequence = place
  }

  package init(worker: UInt16, testPush: UInt32) {
    self.worker = worker
    kind = .testPush
    slot = testPush
    generation = 0
    sequence = 0
  }
}

/// The decision for a provider, or, for a frame of the binary interface, a notice ahead of it.
package struct Verdict: Sendable, Equatable {
  package enum Notice: UInt8, Sendable {
    /// One device gets more than its rate: the reader should slow down.
    case flood
    /// The device's queue is full: the decision comes when the device has made progress, or has made none for
    /// `Limits.courierUnresponsiveMilliseconds`.
    case heldBack
    /// No longer held back: the decision is due as for any other frame.
    case admitted
    /// Upstream has accepted a frame's notification, which was decided before, or nothing more will be said about it.
    case answered
  }

  package var answer: Answer
  /// Nil if the notification was accepted.
  package var rejection: Rejection?
  /// Set if this is not a decision yet.
  package var notice: Notice?

  package init(answer: Answer, rejection: Rejection?) {
    self.answer = answer
    self.rejection = rejection
    notice = nil
  }

  package init(answer: Answer, notice: Notice) {
    self.answer = answer
    rejection = nil
    self.notice = notice
  }
}

/// One notification, owned by the worker of its device.
///
/// The object is reused. It is free when neither a session nor a commit group has it.
package final class Delivery {
  /// The state of the notification's record.
  package enum Storage: Equatable, Sendable {
    /// Neither stored nor gathered.
    case none
    /// In the gathering group; can still be cancelled without a trace.
    case gathering
    /// In a group that is being written.
    case sealed
    /// In the store.
    case durable
    /// A newer notification of the same device and app took its slot.
    case superseded
    /// Its write failed, but the store may have kept it: see `Shard.settleDoubt`.
    case inDoubt
  }

  package enum Place: Equatable, Sendable {
    case none
    case ready
    case held
    /// Not accepted yet, because the session is full.
    case heldBack
    case inFlight
  }

  package var notification: Notification
  /// Nil once the provider was answered.
  package var answer: Answer?
  /// Answers for older notifications that this one replaced before they were durable: they share its outcome.
  var replacedAnswers: [Answer] = []
  package var device: Device
  package var storage = Storage.none
  package var place = Place.none
  /// Whether it is in the part of the group that is written without delay.
  package var isUrgent = false
  /// Entries of a commit group that refer to it, cancelled ones included.
  package var groupReferences = 0
  package var gatheredMilliseconds: UInt64 = 0
  /// Whether it reached a final state, so that only its record remains to be handled.
  package var hasEnded = false
  /// The stored notification that this one replaces with its group. It stays if the group fails.
  var replaced: StoredFacts? {
    get { replacedBox?.facts }
    set {
      if let newValue {
        replacedBox = ReplacedBox(newValue)
      } else if replacedBox != nil {
        replacedBox = nil
      }
    }
  }
  /// In a separate object: few deliveries have one, and testing an optional of this size copies it.
  private var replacedBox: ReplacedBox?
  private final class ReplacedBox {
    let facts: StoredFacts

    init(_ facts: StoredFacts) { self.facts = facts }
  }
  /// Connections that ended before the device acknowledged it: see `StoredFacts.unacknowledgedEnds`.
  var unacknowledgedEnds: UInt8 = 0
  package var isLastFromStorage = false

  package init(notification: Notification, device: Device) {
    self.notification = notification
    self.device = device
  }

  /// Bytes of memory, its notification included. Constant for as long as it has that notification.
  var byteCount: Int { Self.objectBytes + notification.payload.capacity }
  /// Bytes of the two objects, their collapse id and the heap's overhead.
  private static let objectBytes = 640

  /// The facts kept in memory while it is stored.
  var storedFacts: StoredFacts {
    var stored = notification.storedFacts
    stored.unacknowledgedEnds = unacknowledgedEnds
    return stored
  }

  /// Whether it is to be sent alone.
  var isSuspect: Bool { unacknowledgedEnds >= Limits.unacknowledgedEndsTogether }

  var isDurableInSession: Bool {
    guard storage == .durable else { return false }
    switch place {
    case .ready, .held, .inFlight: return true
    case .none, .heldBack: return false
    }
  }

  package var isFree: Bool { place == .none && groupReferences == 0 && storage != .sealed }
}
