/// First in, first out, on an array that keeps its memory.
struct DeliveryQueue {
  private var items: [Delivery] = []
  private var head = 0
  /// Bytes of memory of its notifications.
  private(set) var byteCount = 0

  var count: Int { items.count - head }
  var first: Delivery? { head < items.count ? items[head] : nil }

  mutating func append(_ delivery: Delivery) {
    items.append(delivery)
    byteCount += delivery.byteCount
  }

  mutating func prepend(_ delivery: Delivery) {
    items.insert(delivery, at: head)
    byteCount += delivery.byteCount
  }

  mutating func popFirst() -> Delivery? {
    guard let first else { return nil }
    removeFirst()
    return first
  }

  /// - Precondition: the queue is not empty.
  mutating func removeFirst() {
    byteCount -= items[head].byteCount
    // Usually it is the only one.
    guard items.count > 1 else {
      items.removeLast()
      return
    }
    head += 1
    if head == items.count {
      items.removeAll(keepingCapacity: items.count <= 64)
      head = 0
    } else if head >= 64 {
      items.removeFirst(head)
      head = 0
    }
  }

  mutating func removeFirst(where matches: (Delivery) -> Bool) -> Delivery? {
    guard let index = items[head...].firstIndex(where: matches) else { return nil }
    let delivery = items.remove(at: index)
    byteCount -= delivery.byteCount
    return delivery
  }

  func contains(where matches: (Delivery) -> Bool) -> Bool {
    for index in head..<items.count where matches(items[index]) { return true }
    return false
  }

  func forEach(_ body: (Delivery) -> Void) {
    for index in head..<items.count { body(items[index]) }
  }

  mutating func remove(where matches: (Delivery) -> Bool) -> [Delivery] {
    let taken = items[head...].filter(matches)
    if !taken.isEmpty {
      items = items[head...].filter { !matches($0) }
      head = 0
      for delivery in taken { byteCount -= delivery.byteCount }
    }
    return taken
  }
}
