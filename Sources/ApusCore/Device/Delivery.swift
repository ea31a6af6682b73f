package import ApusModel

/// Where an answer goes: the worker that read the request or the frame, and what it was there.
package struct Answer: Sendable, Equatable {
  package enum Kind: UInt8, Sendable {
    /// A request of the HTTP/2 interface: `slot` is its place in the worker's table of open requests.
    case request
    /// A frame of the binary interface: `slot` is its connection's place in the worker's table.
    case frame
    /// A push of the service's own administration: `slot` is its number.
    case testPush
  }

  package var worker: UInt16
  package var kind: Kind
  package var slot: UInt32
  /// Tells a request or a connection from an earlier one in the same place.
  package var generation: UInt32
  /// The place of a frame among those of its connection.
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

  package init(worker: UInt16, testPush: UInt32) {
    self.worker = worker
    kind = .testPush
    slot = testPush
    generation = 0
    sequence = 0
  }
}

/// What a provider is told.
package struct Verdict: Sendable, Equatable {
  package var answer: Answer
  /// Nil when the notification was accepted.
  package var rejection: Rejection?
  /// This decides nothing yet: it tells the reader of a flood for one device to go slowly.
  package var asksForPause: Bool

  package init(answer: Answer, rejection: Rejection?, asksForPause: Bool = false) {
    self.answer = answer
    self.rejection = rejection
    self.asksForPause = asksForPause
  }
}

/// One accepted notification in the hands of the worker that owns its device.
///
/// The object is reused. It is free when it is neither in a session nor in a commit group.
package final class Delivery {
  /// Where the notification's record is.
  package enum Storage: Equatable, Sendable {
    /// Not in the store, and not on its way there.
    case none
    /// In the group that gathers; may still be taken out without a trace.
    case gathering
    /// In a group that is being written.
    case sealed
    /// In the store.
    case durable
    /// A newer notification of the same device and app took its slot.
    case superseded
    /// Its write failed, and the store may have kept it all the same: see `Shard.settleDoubt`.
    case inDoubt
  }

  package enum Place: Equatable, Sendable {
    case none
    case ready
    case held
    /// Not accepted yet, for the session is full.
    case heldBack
    case inFlight
  }

  package var notification: Notification
  /// Nil once the provider has been answered.
  package var answer: Answer?
  /// Answers for older notifications that this one replaced before they were durable: they were accepted if it is.
  var riders: [Answer] = []
  package var device: Device
  package var storage = Storage.none
  package var place = Place.none
  /// Whether it waits in the part of the group that is written without delay.
  package var isUrgent = false
  /// Entries of a commit group that point here, whether they still mean anything or not.
  package var groupReferences = 0
  package var gatheredMilliseconds: UInt64 = 0
  /// Whether it has reached its last state, and only its record is still to be seen to.
  package var hasEnded = false
  /// The stored notification that this one replaces with the group that brings it in. It stays where that fails.
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
  /// In an object of its own: few have one, and to look whether a value of such a size is there copies it.
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

  /// Bytes that it takes in memory, its notification's included. The same for as long as it has that notification.
  var byteCount: Int { Self.objectBytes + notification.payload.capacity }
  /// Bytes of the two objects, their collapse id and what the heap adds.
  private static let objectBytes = 640

  /// What is to be known of it while it is stored.
  var storedFacts: StoredFacts {
    var stored = notification.storedFacts
    stored.unacknowledgedEnds = unacknowledgedEnds
    return stored
  }

  /// Whether it is to be sent by itself.
  var isSuspect: Bool { unacknowledgedEnds >= Limits.unacknowledgedEndsTogether }

  package var isFree: Bool { place == .none && groupReferences == 0 && storage != .sealed }
}
