/// A queue that serves its keys in turn, each with a line of its own.
///
/// An element waits for at most one of each other key, and for earlier ones of its own key: a key with a thousand
/// elements does not delay one with a single element. Appending and removing cost the same at any length.
package struct FairQueue<Key: Hashable & Sendable, Element: Sendable>: Sendable {
  /// Only keys with waiting elements have a line, so the elements bound the memory.
  private var lines: [Key: FIFO<Element>] = [:]
  /// The keys of the lines, in the order of their turns.
  private var turns = FIFO<Key>()

  package init() {}

  package var isEmpty: Bool { turns.isEmpty }

  package mutating func append(_ element: Element, of key: Key) {
    if lines[key] == nil { turns.append(key) }
    lines[key, default: FIFO()].append(element)
  }

  /// Removes the first element of the line whose turn it is.
  package mutating func popFirst() -> Element? { popFirst { _ in true } }

  /// Removes the first element of the next line that may have a turn. Lines that may not are skipped, each at the cost
  /// of a step.
  package mutating func popFirst(where mayHaveTurn: (Key) -> Bool) -> Element? {
    for _ in 0..<turns.count {
      guard let key = turns.popFirst() else { return nil }
      guard mayHaveTurn(key) else {
        turns.append(key)
        continue
      }
      let element = lines[key]?.popFirst()
      if lines[key]?.isEmpty == false {
        turns.append(key)
      } else {
        lines[key] = nil
      }
      // Frees the memory after a burst.
      if isEmpty { lines = [:] }
      return element
    }
    return nil
  }
}
