public import ApusModel
import ApusTrust

/// The outcome of one push of a bulk send.
public struct BulkOutcome: Sendable, CustomStringConvertible {
  /// The push's position in the sequence, from 0. Outcomes arrive as they become known, not in this order.
  public var index: Int
  /// The id of the request: its own, or a random one.
  public var apnsID: NotificationID
  /// The outcome, or why the request is invalid and was not sent.
  public var result: Result<SendOutcome, PushRequestError>

  /// The position, and the outcome with the id of the request.
  public var description: String {
    let id = "\(HeaderName.apnsID.text) \(apnsID)"
    return switch result {
    case .success(let outcome):
      if case .unknown = outcome { "\(index): \(outcome), \(id)" } else { "\(index): \(outcome)" }
    case .failure(let error): "\(index): not sent, because \(error), \(id)"
    }
  }
}

/// The outcomes of a bulk send as they become known: one for each push, in no particular order.
///
/// The sequence of pushes is read as fast as pushes are sent and outcomes are read, and at most a bounded number ahead.
/// If the sequence throws, the error follows the outcomes of all earlier pushes. Sending starts when the first outcome
/// is requested. If the reading task is cancelled, nothing more is sent, and pushes without an outcome end as
/// cancelled. If the iterator is released, waiting pushes are not sent. Each iterator sends all pushes again.
public struct SendOutcomes<Requests: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Requests.Element == PushRequest {
  public typealias Element = BulkOutcome
  public typealias Failure = Requests.Failure

  let client: APNSClient
  let requests: Requests
  let capacity: Int

  public func makeAsyncIterator() -> Iterator {
    Iterator(BulkReader(client: client, requests: requests, capacity: capacity))
  }

  public struct Iterator: AsyncIteratorProtocol {
    private let reader: BulkReader<Requests>

    fileprivate init(_ reader: BulkReader<Requests>) { self.reader = reader }

    public mutating func next() async throws(Failure) -> BulkOutcome? {
      if let outcome = reader.take() { return outcome }
      return try await reader.wait()
    }

    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(Failure) -> BulkOutcome? {
      if let outcome = reader.take() { return outcome }
      return try await reader.wait(isolation: actor)
    }
  }
}

/// Reads the outcomes of one bulk send, and starts the task that feeds it.
private final class BulkReader<Requests: AsyncSequence & Sendable>
where Requests.Element == PushRequest {
  private let client: APNSClient
  private let requests: Requests
  private let job: BulkJob
  private var hasBegun = false
  private var pushes: [BulkPush] = []
  private var position = 0

  init(client: APNSClient, requests: Requests, capacity: Int) {
    self.client = client
    self.requests = requests
    job = client.bulkJob(capacity: capacity)
  }

  deinit { job.cancel() }

  /// An outcome that is already available.
  func take() -> BulkOutcome? {
    guard position < pushes.count else { return nil }
    let send = pushes[position].send
    position += 1
    guard let result = send.result.take() else { preconditionFailure("a push without its outcome") }
    return BulkOutcome(index: send.index, apnsID: send.push.id, result: result)
  }

  func wait(
    isolation actor: isolated (any Actor)? = #isolation
  ) async throws(Requests.Failure) -> BulkOutcome? {
    if !hasBegun { begin() }
    while true {
      position = 0
      switch job.exchange(&pushes) {
      case .some: return take()
      case .none: await job.waitForOutcomes()
      case .over(let failure):
        guard let failure = failure as? Requests.Failure else { return nil }
        throw failure
      }
    }
  }

  private func begin() {
    hasBegun = true
    job.setTask(
      Task { [requests, job, client] in
        await feed(requests, to: job)
        // Keeps the client alive until here.
        withExtendedLifetime(client) {}
      })
  }
}

/// Reads the sequence while there is room.
private func feed<Requests: AsyncSequence>(
  _ requests: Requests, to job: BulkJob
) async where Requests.Element == PushRequest {
  var iterator = requests.makeAsyncIterator()
  let ids = RandomIDs()
  var vacant: [BulkPush] = []
  var index = 0
  do throws(Requests.Failure) {
    while true {
      guard let send = vacant.popLast()?.send else {
        switch job.vacancies(&vacant) {
        case .over: return job.inputEnded(failure: nil)
        case .none: await job.waitForVacancy()
        case .some: break
        }
        continue
      }
      // Ending the job cancels this task.
      guard !Task.isCancelled, let request = try await iterator.next(isolation: nil) else {
        return job.inputEnded(failure: nil)
      }
      send.index = index
      index += 1
      do throws(PushRequestError) {
        try send.push.encode(request, id: ids.next())
        job.submit(send)
      } catch {
        job.reject(send, error)
      }
    }
  } catch {
    job.inputEnded(failure: error)
  }
}
