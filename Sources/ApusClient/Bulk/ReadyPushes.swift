/// Pushes that already exist, for the bulk forms of the clients: `send(all:)` takes any `Sequence`.
///
/// They cost less than an `AsyncSequence`, which may suspend for each element.
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

/// A sequence that can feed a bulk send without suspending for each push.
protocol ReadySource {
  func feed(_ feed: inout BulkFeed) async
}

extension ReadyPushes: ReadySource {
  func feed(_ feed: inout BulkFeed) async { await feed.run(ready: pushes) }
}
