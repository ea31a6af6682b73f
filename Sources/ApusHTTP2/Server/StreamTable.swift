/// The open requests of one connection, by stream.
///
/// Clients number their streams consecutively, so half the number, modulo the table's size, is a free index for nearly
/// all of them; the rest follow it (linear probing).
struct StreamTable {
  /// A power of two in size, at most half full.
  private var places: [HTTP2Request?] = []
  private var count = 0

  init() {}

  subscript(streamID: Int32) -> HTTP2Request? {
    guard !places.isEmpty else { return nil }
    return places[index(of: streamID)]
  }

  /// - Precondition: the stream is not in the table.
  mutating func add(_ request: HTTP2Request) {
    if 2 * count >= places.count { grow() }
    places[index(of: request.streamID)] = request
    count += 1
  }

  mutating func remove(_ streamID: Int32) {
    guard !places.isEmpty else { return }
    var free = index(of: streamID)
    guard places[free] != nil else { return }
    // Moves up following entries that a search would no longer find.
    let mask = places.count - 1
    var next = (free + 1) & mask
    while let other = places[next] {
      let start = Int(other.streamID >> 1) & mask
      if (next - start) & mask >= (next - free) & mask {
        places[free] = other
        free = next
      }
      next = (next + 1) & mask
    }
    places[free] = nil
    count -= 1
  }

  /// The index of the stream, or the free one for it.
  private func index(of streamID: Int32) -> Int {
    let mask = places.count - 1
    var index = Int(streamID >> 1) & mask
    while let other = places[index], other.streamID != streamID { index = (index + 1) & mask }
    return index
  }

  private mutating func grow() {
    let old = places
    places = Array(repeating: nil, count: max(8, 2 * old.count))
    for case let request? in old { places[index(of: request.streamID)] = request }
  }
}
