/// What a session keeps of an open stream.
protocol SessionStream: AnyObject {
  var streamID: Int32 { get }
  /// Its index among the session's open streams; -1 once it is closed.
  var slot: Int { get set }
  /// Bytes of its message that the peer accepts before its next WINDOW_UPDATE; may be negative (RFC 9113, section
  /// 6.9.2).
  var sendWindowBytes: Int { get set }
}

/// The open streams of one connection, by number.
///
/// Clients number their streams consecutively, so half the number, modulo the table's size, is a free index for nearly
/// all of them. The rest follow it, those furthest from their index first (Robin Hood hashing): so a search, and the
/// gap that a removal leaves, end at the first stream that is at its own index.
struct StreamTable<Stream: SessionStream> {
  /// A power of two in size, at most half full.
  private var places: [Stream?] = []
  private var count = 0

  init() {}

  subscript(streamID: Int32) -> Stream? { place(of: streamID).flatMap { places[$0] } }

  /// - Precondition: the stream is not in the table.
  mutating func add(_ stream: Stream) {
    if 2 * count >= places.count { grow() }
    insert(stream)
    count += 1
  }

  mutating func remove(_ streamID: Int32) {
    guard var free = place(of: streamID) else { return }
    let mask = places.count - 1
    var next = (free + 1) & mask
    while let other = places[next], distance(of: other, at: next) > 0 {
      places[free] = other
      free = next
      next = (next + 1) & mask
    }
    places[free] = nil
    count -= 1
  }

  private func place(of streamID: Int32) -> Int? {
    guard !places.isEmpty else { return nil }
    let mask = places.count - 1
    var place = Int(streamID >> 1) & mask
    var distance = 0
    while let other = places[place] {
      if other.streamID == streamID { return place }
      if self.distance(of: other, at: place) < distance { return nil }
      place = (place + 1) & mask
      distance += 1
    }
    return nil
  }

  /// How far a stream is from its own index.
  private func distance(of stream: Stream, at place: Int) -> Int {
    (place - Int(stream.streamID >> 1)) & (places.count - 1)
  }

  private mutating func insert(_ stream: Stream) {
    let mask = places.count - 1
    var stream = stream
    var place = Int(stream.streamID >> 1) & mask
    var distance = 0
    while let other = places[place] {
      let otherDistance = self.distance(of: other, at: place)
      if otherDistance < distance {
        places[place] = stream
        stream = other
        distance = otherDistance
      }
      place = (place + 1) & mask
      distance += 1
    }
    places[place] = stream
  }

  private mutating func grow() {
    let old = places
    places = Array(repeating: nil, count: max(8, 2 * old.count))
    for case let stream? in old { insert(stream) }
  }
}
