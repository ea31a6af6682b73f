/// The pushes that wait for a stream, in order.
struct SendQueue {
  let capacity: Int
  /// Those before `head` are taken.
  private var sends: [PendingSend?] = []
  private var head = 0

  init(capacity: Int) { self.capacity = capacity }

  var count: Int { sends.count - head }
  var isEmpty: Bool { count == 0 }

  /// False when the queue is full.
  mutating func append(_ send: PendingSend) -> Bool {
    guard count < capacity else { return false }
    sends.append(send)
    return true
  }

  /// Puts pushes back that had a stream already, in front and in their order. They may exceed the capacity, by no more
  /// than the streams of a connection.
  mutating func putBack(_ returned: [PendingSend]) {
    guard !returned.isEmpty else { return }
    sends.replaceSubrange(..<head, with: returned.map(Optional.some))
    head = 0
  }

  mutating func takeFirst() -> PendingSend? {
    guard head < sends.count else { return nil }
    let first = sends[head].take()
    head += 1
    if head == sends.count {
      sends.removeAll(keepingCapacity: true)
      head = 0
    } else if head >= 1024, head * 2 >= sends.count {
      sends.removeFirst(head)
      head = 0
    }
    return first
  }

  mutating func takeAll() -> [PendingSend] { take(where: { _ in true }) }

  /// Takes out those that `isWanted` picks; the others keep their order.
  mutating func take(where isWanted: (PendingSend) -> Bool) -> [PendingSend] {
    var taken: [PendingSend] = []
    var kept: [PendingSend?] = []
    for send in sends[head...] {
      guard let send else { continue }
      if isWanted(send) { taken.append(send) } else { kept.append(send) }
    }
    guard !taken.isEmpty else { return [] }
    sends = kept
    head = 0
    return taken
  }
}
