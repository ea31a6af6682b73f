import ApusThread
import ApusLoop
import ApusWeb
import ApusWire
import Synchronization

/// Sends server-sent events to all readers (HTML Living Standard, section 9.2). Each event is written when its reader
/// has room, with the state at that time. Confined to the loop.
final class EventFeed: @unchecked Sendable {
  private final class Reader {
    let stream: WebStream
    let isBrief: Bool
    var next: UInt64
    /// Whether the stream reported that it is full and has not reported room since.
    var isFull = false

    init(_ stream: WebStream, isBrief: Bool, next: UInt64) {
      self.stream = stream
      self.isBrief = isBrief
      self.next = next
    }
  }

  private let loop: EventLoop
  private let recorder: PushRecorder
  /// An event's data as JSON, or only what a list needs; nil if its object no longer exists.
  private let data: @Sendable (DevEvent, _ isBrief: Bool) -> [UInt8]?
  private var readers: [ObjectIdentifier: Reader] = [:]
  private var timer: LoopTimer?

  /// Maximum bytes buffered for a reader.
  private static let capacity = 1 << 20
  private static let heartbeatMilliseconds: UInt64 = 10_000
  private static let eventsPerWrite = 256

  init(
    loop: EventLoop, recorder: PushRecorder,
    data: @escaping @Sendable (DevEvent, _ isBrief: Bool) -> [UInt8]?
  ) {
    self.loop = loop
    self.recorder = recorder
    self.data = data
  }

  func start() {
    let timer = LoopTimer(loop: loop) { [unowned self] in heartbeat() }
    timer.start(
      afterMilliseconds: Self.heartbeatMilliseconds, repeatMilliseconds: Self.heartbeatMilliseconds)
    self.timer = timer
  }

  func stop() {
    timer?.close()
    timer = nil
    for reader in readers.values { reader.stream.end() }
    readers = [:]
  }

  /// A stream of all events from now on, or after the event `last`. May be called from any thread.
  func open(after last: UInt64?, isBrief: Bool) -> WebStream {
    let box = RoomBox()
    let stream = WebStream(capacity: Self.capacity) { [weak self] in
      guard let self, let id = box.id else { return }
      loop.perform { [weak self] in self?.hasRoom(id) }
    }
    box.id = ObjectIdentifier(stream)
    loop.perform { [self] in add(stream, last, isBrief) }
    return stream
  }

  /// Holds the reader's index, which the stream needs to report room, but which exists only after the stream.
  private final class RoomBox: Sendable {
    private let state = Mutex<ObjectIdentifier?>(nil)

    var id: ObjectIdentifier? {
      get { state.withLock { $0 } }
      set { state.withLock { $0 = newValue } }
    }
  }

  private func add(_ stream: WebStream, _ last: UInt64?, _ isBrief: Bool) {
    let next = recorder.state.withLock { $0.events.next }
    let reader = Reader(stream, isBrief: isBrief, next: last.map { $0 &+ 1 } ?? next)
    guard stream.write(Array("retry: 1000\n\n".utf8)) == .taken else { return }
    readers[ObjectIdentifier(stream)] = reader
    feed(reader)
  }

  private func hasRoom(_ id: ObjectIdentifier) {
    guard let reader = readers[id] else { return }
    reader.isFull = false
    feed(reader)
  }

  /// Sends recorded events to all readers.
  func feed() { for reader in readers.values { feed(reader) } }

  private func feed(_ reader: Reader) {
    while !reader.isFull {
      let start = reader.next
      let (events, end) = recorder.state.withLock { state in
        (state.events.from(start).map { Array($0.prefix(Self.eventsPerWrite)) }, state.events.next)
      }
      guard let events else {
        // Events were dropped or belong to another run: the reader must start over.
        guard write(Self.event("cleared", end &- 1, Array("{\"lost\":true}".utf8)), reader) else {
          return
        }
        reader.next = end
        continue
      }
      guard !events.isEmpty else { return }
      var text: [UInt8] = []
      var told: Set<DevEvent> = []
      for (offset, event) in events.enumerated() {
        guard Self.isNews(event, &told), let data = data(event, reader.isBrief) else { continue }
        text += Self.event(event.name, start + UInt64(offset), data)
      }
      guard text.isEmpty || write(text, reader) else { return }
      reader.next = start + UInt64(events.count)
    }
  }

  /// An event has the current state, so one event per push or device is enough in a write.
  private static func isNews(_ event: DevEvent, _ told: inout Set<DevEvent>) -> Bool {
    switch event {
    case .push(let number):
      told.insert(.update(number))
      return true
    case .update, .device: return told.insert(event).inserted
    case .fault, .clock, .cleared: return true
    }
  }

  /// Returns false if the stream is full or closed.
  private func write(_ text: [UInt8], _ reader: Reader) -> Bool {
    switch reader.stream.write(text) {
    case .taken: return true
    case .full: reader.isFull = true
    case .closed: readers[ObjectIdentifier(reader.stream)] = nil
    }
    return false
  }

  private static func event(_ name: String, _ id: UInt64, _ data: [UInt8]) -> [UInt8] {
    Array("event: \(name)\nid: \(id)\ndata: ".utf8) + data + [0x0a, 0x0a]
  }

  /// Sends a comment, to detect readers that disconnected.
  private func heartbeat() {
    for reader in readers.values where !reader.isFull { _ = write(Array(":\n\n".utf8), reader) }
  }
}
