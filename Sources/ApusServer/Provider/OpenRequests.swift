import ApusCore
import ApusHTTP2
import ApusModel

/// A request in progress.
struct OpenRequest {
  var request: HTTP2Request
  var provider: HTTP2Provider
  var id: NotificationID
  var uniqueID: NotificationID
}

/// The requests that a worker's providers have not been answered yet.
///
/// A place in this table is what travels to the worker that owns the device, and back with the verdict.
struct OpenRequests {
  private struct Entry {
    var open: OpenRequest?
    var generation: UInt32 = 0
  }

  private var places: [Entry] = []
  private var free: [UInt32] = []
  private let worker: UInt16

  init(worker: UInt16) { self.worker = worker }

  var count: Int { places.count - free.count }

  mutating func open(_ request: consuming OpenRequest) -> Answer {
    if free.isEmpty {
      free.append(UInt32(places.count))
      places.append(Entry())
    }
    let slot = free.removeLast()
    places[Int(slot)].open = request
    return Answer(worker: worker, slot: slot, generation: places[Int(slot)].generation)
  }

  /// Takes out every request that came before a time of the loop's clock, in one pass: a disk that stalls makes all
  /// of them late at once.
  mutating func closeAll(startedBefore milliseconds: UInt64) -> [OpenRequest] {
    guard count > 0 else { return [] }
    return places.indices.compactMap { index in
      guard let open = places[index].open, open.request.startedMilliseconds < milliseconds else {
        return nil
      }
      return close(
        Answer(worker: worker, slot: UInt32(index), generation: places[index].generation))
    }
  }

  /// Takes the request out; nil when the answer came twice.
  mutating func close(_ answer: Answer) -> OpenRequest? {
    let index = Int(answer.slot)
    guard places[index].generation == answer.generation, let request = places[index].open.take()
    else { return nil }
    places[index].generation &+= 1
    free.append(answer.slot)
    return request
  }
}
