/// A queue in which each key has a line of its own, and the lines take turns.
///
/// An element waits for at most one of each other key, and for those of its own key that came before: a key with a
/// thousand elements does not delay one with a single element. Adding and taking cost the same however many wait.
package struct FairQueue<Key: Hashable & Sendable, Element: Sendable>: Sendable {
  /// Only keys with waiting elements have a line: the memory is bounded by the elements.
  private var lines: [Key: FIFO<Element>] = [:]
  /// The keys of the lines, the one whose turn is next first.
  private var turns = FIFO<Key>()

  package init() {}

  package var isEmpty: Bool { turns.isEmpty }

  package mutating func append(_ element: Element, of key: Key) {
    if lines[key] == nil { turns.append(key) }
    lines[key, default: FIFO()].append(element)
  }

  /// Takes the first element of the line whose turn it is.
  package mutating func popFirst() -> Element? {
    guard let key = turns.popFirst(), let element = lines[key]?.popFirst() else { return nil }
    if lines[key]?.isEmpty == false {
      turns.append(key)
    } else {
      lines[key] = nil
    }
    // What a crowd took is given back with it.
    if isEmpty { lines = [:] }
    return element
  }
}
