package import Synchronization

/// The interface of an inbox for its loop.
protocol Deliverable: AnyObject, Sendable {
  /// Delivers the queued elements. Called on the loop.
  func deliver()
}

/// A bounded queue from any number of threads to one loop.
///
/// Elements are queued under a lock and delivered as one batch per turn, so a batch costs one hand-over and at most
/// one wake-up, whatever its size. The elements of one thread arrive in order, each exactly once.
package final class Inbox<Element: Sendable>: Deliverable, @unchecked Sendable {
  @usableFromInline
  struct State {
    @usableFromInline var waiting: [Element] = []
    /// Whether the loop already knows that elements wait.
    @usableFromInline var isAnnounced = false
    @usableFromInline var isClosed = false

    @usableFromInline
    init() {}
  }

  package let loop: EventLoop
  /// The most elements that may wait for the loop.
  package let capacity: Int

  @usableFromInline let state = Mutex(State())
  /// The other buffer: the two alternate, and both keep their storage. Confined, like the handler.
  private var spare: [Element] = []
  private var handler: ((inout [Element]) -> Void)?

  /// - Parameter handler: Gets each batch, on the loop. What it leaves in the array is dropped.
  package init(loop: EventLoop, capacity: Int, handler: @escaping (inout [Element]) -> Void) {
    precondition(capacity > 0, "an inbox without room takes nothing")
    self.capacity = capacity
    self.handler = handler
    self.loop = loop
  }

  /// Queues an element. False if the inbox is full or closed: the element was not queued.
  @inlinable
  package func send(_ element: Element) -> Bool {
    let (isTaken, mustAnnounce) = state.withLock { state in
      guard !state.isClosed, state.waiting.count < capacity else { return (false, false) }
      state.waiting.append(element)
      let isFirst = !state.isAnnounced
      state.isAnnounced = true
      return (true, isFirst)
    }
    if mustAnnounce { announce() }
    return isTaken
  }

  /// Queues elements from the front while there is room, and removes those from the array.
  ///
  /// - Returns: The number of elements queued.
  @inlinable
  package func send(contentsOf elements: inout [Element]) -> Int {
    guard !elements.isEmpty else { return 0 }
    // The lock's closure cannot capture the array; it is moved in, and the rest is moved back.
    var moved: [Element] = []
    swap(&moved, &elements)
    let (taken, mustAnnounce) = state.withLock { state in
      let room = state.isClosed ? 0 : capacity - state.waiting.count
      let taken = min(room, moved.count)
      guard taken > 0 else { return (0, false) }
      if taken == moved.count {
        if state.waiting.isEmpty {
          swap(&state.waiting, &moved)
        } else {
          state.waiting.append(contentsOf: moved)
          moved.removeAll(keepingCapacity: true)
        }
      } else {
        state.waiting.append(contentsOf: moved[..<taken])
        moved.removeFirst(taken)
      }
      let isFirst = !state.isAnnounced
      state.isAnnounced = true
      return (taken, isFirst)
    }
    swap(&moved, &elements)
    if mustAnnounce { announce() }
    return taken
  }

  /// Elements that wait for the loop.
  package var count: Int { state.withLock { $0.waiting.count } }

  /// Accepts nothing from now on, and releases the handler. Confined.
  ///
  /// - Returns: The elements queued and not delivered.
  @discardableResult
  package func close() -> [Element] {
    loop.preconditionConfined()
    handler = nil
    return state.withLock { state in
      state.isClosed = true
      var undelivered: [Element] = []
      swap(&undelivered, &state.waiting)
      return undelivered
    }
  }

  /// Adds the inbox to the loop's work, and wakes the loop if it sleeps.
  @usableFromInline
  func announce() { loop.enqueue(.inbox(self)) }

  func deliver() {
    var batch: [Element] = []
    swap(&batch, &spare)
    state.withLock { state in
      swap(&batch, &state.waiting)
      state.isAnnounced = false
    }
    if !batch.isEmpty { handler?(&batch) }
    batch.removeAll(keepingCapacity: true)
    swap(&batch, &spare)
  }
}
