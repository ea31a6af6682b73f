/// First in, first out, for elements that may end long before they reach the front.
///
/// Each call drops ended elements from the front. So the queue is as long as the number of elements added since its
/// oldest live element.
package struct LiveQueue<Element: Sendable>: Sendable {
  private var elements = FIFO<Element>()

  package init() {}

  package var count: Int { elements.count }

  package mutating func append(_ element: Element, isLive: (Element) -> Bool) {
    _ = first(where: isLive)
    elements.append(element)
  }

  /// The oldest live element; it stays in the queue.
  package mutating func first(where isLive: (Element) -> Bool) -> Element? {
    while let element = elements.first {
      if isLive(element) { return element }
      elements.popFirst()
    }
    return nil
  }
}
