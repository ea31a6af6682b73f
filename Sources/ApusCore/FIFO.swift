/// First in, first out, on an array that discards its front now and then.
package struct FIFO<Element: Sendable>: Sendable {
  private var elements: [Element] = []
  private var head = 0

  private static var elementsMoved: Int { 1024 }

  package init() {}

  package var count: Int { elements.count - head }
  package var isEmpty: Bool { head == elements.count }
  package var first: Element? { isEmpty ? nil : elements[head] }

  package mutating func append(_ element: Element) { elements.append(element) }

  @discardableResult
  package mutating func popFirst() -> Element? {
    guard let element = first else { return nil }
    head += 1
    if isEmpty {
      elements.removeAll(keepingCapacity: elements.capacity <= Self.elementsMoved)
      head = 0
    } else if head >= Self.elementsMoved, head > elements.count / 2 {
      elements.removeFirst(head)
      head = 0
    }
    return element
  }
}
