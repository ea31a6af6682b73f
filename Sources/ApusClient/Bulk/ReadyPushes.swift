/// Pushes that are all there, as in an array, for the bulk forms of the clients: `send(all:)` takes any `Sequence`.
///
/// A push of it costs less than one of an `AsyncSequence`, each of which may have to wait for something.
public struct ReadyPushes<Pushes: Sequence & Sendable>: AsyncSequence, Sendable
where Pushes.Element == PushRequest {
  public typealias Element = PushRequest
  public typealias Failure = Never

  let pushes: Pushes

  public func makeAsyncIterator() -> Iterator { Iterator(pushes: pushes.makeIterator()) }

  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var pushes: Pushes.Iterator

    public mutating func next() async -> PushRequest? { pushes.next() }

    public mutating func next(isolation actor: isolated (any Actor)?) async -> PushRequest? {
      pushes.next()
    }
  }
}

/// What a bulk that was given some sequence finds out about it.
protocol ReadySource {
  func feed(_ feed: inout BulkFeed) async
}

extension ReadyPushes: ReadySource {
  func feed(_ feed: inout BulkFeed) async { await feed.run(ready: pushes) }
}
