/// The open streams of a connection.
///
/// Noncopyable for speed: a call on a copy would retain every field.
struct StreamList<Stream: SessionStream>: ~Copyable {
  private var table = StreamTable<Stream>()
  /// In no order; each stream knows its index.
  private(set) var all: [Stream] = []
  /// The stream of the last header block: its body is usually next.
  private var current: Stream?

  init() {}

  subscript(streamID: Int32) -> Stream? {
    if let current, current.streamID == streamID { return current }
    return table[streamID]
  }

  var count: Int { all.count }

  mutating func add(_ stream: Stream) {
    stream.slot = all.count
    all.append(stream)
    table.add(stream)
  }

  /// A header block of the stream arrived; nil if the stream is not open.
  mutating func note(current stream: Stream?) { current = stream }

  mutating func remove(_ stream: Stream) {
    if current === stream { current = nil }
    table.remove(stream.streamID)
    let last = all.removeLast()
    if last !== stream {
      all[stream.slot] = last
      last.slot = stream.slot
    }
    stream.slot = -1
  }
}
