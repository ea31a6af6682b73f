/// Finds what a mistyped word was meant to be.
enum Suggestion {
  /// The candidate closest to `word`, if it differs by at most one edit, or one edit per three letters.
  static func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
    let limit = max(1, word.count / 3)
    var best: (word: String, distance: Int)?
    for candidate in candidates where candidate != word {
      let distance = distance(Array(word), Array(candidate))
      if distance <= limit, distance < best?.distance ?? .max { best = (candidate, distance) }
    }
    return best?.word
  }

  /// The number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
  static func distance(_ left: [Character], _ right: [Character]) -> Int {
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for row in 0..<left.count {
      var current = [row + 1]
      for column in 0..<right.count {
        var least = min(
          last[column] + (left[row] == right[column] ? 0 : 1), last[column + 1] + 1,
          current[column] + 1)
        if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
          least = min(least, beforeLast[column - 1] + 1)
        }
        current.append(least)
      }
      (beforeLast, last) = (last, current)
    }
    return last[right.count]
  }
}
