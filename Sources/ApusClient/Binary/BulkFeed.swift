import ApusModel

/// Reads the pushes of one bulk send and puts them into the intake as there is room.
struct BulkFeed {
  private let bulk: BulkSend
  private let intake: FrameIntake
  private let pending: PendingOutcomes
  /// Most bulk pushes that may wait for the loop; leaves room for single ones.
  private let limit: Int
  private let timeoutMilliseconds: UInt64
  private var nextTicket: UInt64
  /// The rest of the last claim, and the id for its next push without one.
  private var claimed = 0
  private var nextID = NotificationID(high: 0, low: 0)

  init(
    _ bulk: BulkSend, firstTicket: UInt64, intake: FrameIntake, pending: PendingOutcomes,
    limit: Int,
    timeoutMilliseconds: UInt64
  ) {
    self.bulk = bulk
    self.intake = intake
    self.pending = pending
    self.limit = limit
    self.timeoutMilliseconds = timeoutMilliseconds
    nextTicket = firstTicket
  }

  mutating func run<Requests: AsyncSequence>(_ requests: Requests) async
  where Requests.Element == PushRequest {
    if let ready = requests as? any ReadySource { return await ready.feed(&self) }
    do {
      for try await request in requests {
        if claimed == 0 {
          guard await claim() else { break }
        } else if bulk.isAbandoned {
          break
        }
        // A call that can suspend costs as much as encoding a push.
        if !put(request) { await putLater(request) }
      }
      bulk.finish(nil, unused: claimed)
    } catch {
      bulk.finish(error, unused: claimed)
    }
  }

  /// The same without suspending for each push.
  mutating func run<Pushes: Sequence>(ready pushes: Pushes) async
  where Pushes.Element == PushRequest {
    var iterator = pushes.makeIterator()
    while await claim() {
      while claimed > 0 {
        guard let request = iterator.next() else { return bulk.finish(nil, unused: claimed) }
        if !put(request) { await putLater(request) }
      }
    }
    bulk.finish(nil)
  }

  /// Waits for room in the bulk send. False if nobody wants its outcomes any more.
  private mutating func claim() async -> Bool {
    while true {
      switch bulk.claim() {
      case .room(let count, let firstID):
        (claimed, nextID) = (count, firstID)
        return true
      case .full: await bulk.waitForRoom()
      case .over: return false
      }
    }
  }

  /// False if there is no room now.
  private mutating func put(_ request: borrowing PushRequest) -> Bool {
    let id = request.id ?? nextID
    do throws(PushRequestError) {
      let deadline = roughMonotonicMilliseconds() + timeoutMilliseconds
      switch try intake.put(
        request, ticket: nextTicket, id: id, deadlineMilliseconds: deadline, limit: limit)
      {
      case .taken: break
      case .full: return false
      case .closed:
        pending.deliver(
          nextTicket, .unknown(UnknownCause(.clientClosed), retryMayDuplicate: false), id: id)
      }
    } catch {
      let index = Int(nextTicket & PendingOutcomes.numberMask)
      bulk.refuse(BulkOutcome(index: index, apnsID: id, result: .failure(error)))
    }
    nextTicket += 1
    claimed -= 1
    nextID = NotificationID(high: nextID.high, low: nextID.low &+ 1)
    return true
  }

  private mutating func putLater(_ request: PushRequest) async {
    repeat { await intake.waitForRoom(limit: limit) } while !put(request)
  }
}
