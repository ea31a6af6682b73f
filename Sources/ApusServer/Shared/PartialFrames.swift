import ApusModel

/// The beginning of a frame, whose rest is still to come.
final class PartialFrames {
  private var bytes: [UInt8]

  init(_ bytes: [UInt8] = []) { self.bytes = bytes }

  /// Passes on what has come.
  ///
  /// - Parameter consume: Takes the complete frames, and returns where the rest begins.
  func take(_ input: Span<UInt8>, _ consume: (Span<UInt8>) -> Int) {
    guard !bytes.isEmpty else {
      let rest = consume(input)
      if rest < input.count { bytes.append(input.extracting(rest...)) }
      return
    }
    var all: [UInt8] = []
    swap(&all, &bytes)
    all.append(input)
    let rest = consume(all.span)
    all.removeFirst(rest)
    bytes = all
  }

  func removeAll() { bytes = [] }
}
