/// A queue in which each key has a line of its own, and the lines take turns.
///
/// An element waits for at most one of each other key, and for those of its own key that came before: a key with a
/// thousand elements does not delay one with a single element. Adding and taking cost the same however many wait.
package struct FairQueue<Key: Hashable & Sendable, Element: Sendable>: Sendable {
  private struct Line {
    let key: Key
    var elements: FIFO<Element>
  }

  /// Only keys with waiting elements have a line: the memory is bounded by the elements.
  private var placeOfKey: [Key: Int] = [:]
  private var lines: [Line?] = []
  private var freePlaces: [Int] = []
  /// Places of the lines, the one whose turn is next first.
  private var turns = FIFO<Int>()

  package init() {}

  package var isEmpty: Bool { turns.isEmpty }

  package mutating func append(_ element: Element, of key: Key) {
    if let place = placeOfKey[key] {
      lines[place]?.elements.append(element)
      return
    }
    var line = Line(key: key, elements: FIFO())
    line.elements.append(element)
    let place: Int
    if let free = freePlaces.popLast() {
      place = free
      lines[place] = line
    } else {
      place = lines.count
      lines.append(line)
    }
    placeOfKey[key] = place
    turns.append(place)
  }

  /// Takes the first element of the line whose turn it is.
  package mutating func popFirst() -> Element? {
    guard let place = turns.popFirst(), let element = lines[place]?.elements.popFirst() else {
      return nil
    }
    if lines[place]?.elements.isEmpty == false {
      turns.append(place)
    } else {
      remove(place)
    }
    return element
  }

  private mutating func remove(_ place: Int) {
    if let line = lines[place] { placeOfKey[line.key] = nil }
    lines[place] = nil
    if turns.isEmpty {
      // What a crowd took is given back with it.
      self = FairQueue()
    } else {
      freePlaces.append(place)
    }
  }
}

/// First in, first out.
package struct FIFO<Element: Sendable>: Sendable {
  private var elements: [Element] = []
  private var head = 0

  private static var elementsMoved: Int { 1024 }

  package init() {}

  package var isEmpty: Bool { head == elements.count }
  package var first: Element? { isEmpty ? nil : elements[head] }

  package mutating func append(_ element: Element) { elements.append(element) }

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
