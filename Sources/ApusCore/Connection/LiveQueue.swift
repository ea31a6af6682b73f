/// First in, first out, of elements that may be over long before they are the first.
///
/// Those that are over are dropped when they come to the front, with each call. So the queue is as long as what came
/// since its oldest living element did.
package struct LiveQueue<Element: Sendable>: Sendable {
  private var elements = FIFO<Element>()

  package init() {}

  package var count: Int { elements.count }

  package mutating func append(_ element: Element, isLive: (Element) -> Bool) {
    _ = first(where: isLive)
    elements.append(element)
  }

  /// The oldest one that is not over; it stays.
  package mutating func first(where isLive: (Element) -> Bool) -> Element? {
    while let element = elements.first {
      if isLive(element) { return element }
      elements.popFirst()
    }
    return nil
  }
}
