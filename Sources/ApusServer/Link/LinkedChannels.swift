import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusWire

/// Another node, which keeps a copy of the channels for the devices of its part: it learns what happens to them, and
/// says what its devices do.
final class LinkedChannels: ConnectionDriver {
  private let register: ChannelRegister
  /// Of the other node.
  private let part: Int
  private let partial = PartialFrames()
  private var output: [UInt8] = []
  private var receiver: Int?
  /// What is still to be said of what there was when the link began.
  private var unsaid: ArraySlice<ChannelID>
  private var isComplete = false
  /// Asked before that.
  private var asked: [UInt64] = []
  /// What the other node has counted.
  private var figures = SubscriptionCounts.Part()
  private var isOver = false

  /// A copy that does not read what happens is cut off, and begins again.
  private static let mostOutputBytes = 64 << 20

  /// - Parameter unread: What has come already.
  init(_ connection: Connection, ofPart part: Int, unread: [UInt8]) {
    register = connection.context.shared.channels
    self.part = part
    unsaid = []
    super.init(connection)
    connection.schedule.deadlineSeconds = .max
    let (table, loop, entry) = (connection.table, context.loop, connection.entry)
    receiver = register.events.add { event in
      loop.perform { (table.connection(entry)?.driver as? LinkedChannels)?.learn(event) }
    }
    // Behind that: what happens meanwhile is said twice rather than never.
    unsaid = register.all().map(\.id)[...]
    take(unread.span)
    connection.markDirty()
  }

  // MARK: To the copy

  private func learn(_ event: ChannelEvent) {
    guard !isOver else { return }
    switch event {
    case .created(let channel): say(.channel(channel))
    case .published(let broadcast):
      say(.broadcast(broadcast.channel.id, LinkedBroadcast(broadcast)))
    case .deleted(_, let id): say(.deleted(id))
    }
    if output.count > Self.mostOutputBytes { fail("the node does not read what happens") }
  }

  private func say(_ frame: ChannelFrame) {
    frame.encode(to: &output)
    connection.markDirty()
  }

  override func flush() -> Connection.Ending {
    while connection.mayWrite, !isOver {
      sayMore()
      guard !output.isEmpty else { break }
      connection.encrypt(output, count: output.count)
      output.removeAll(keepingCapacity: true)
    }
    return .none
  }

  /// A channel is said as it is now, so that its events before and after this fit.
  private func sayMore() {
    while output.count < Limits.outputHighWaterBytes / 4, let id = unsaid.popFirst() {
      guard let entry = register.entry(id) else { continue }
      ChannelFrame.channel(entry.channel).encode(to: &output)
      guard entry.channel.storage == .newest else { continue }
      if let stored = entry.stored, !stored.isExpired(atSeconds: context.wallSeconds) {
        ChannelFrame.broadcast(id, LinkedBroadcast(stored)).encode(to: &output)
      } else {
        ChannelFrame.empty(id).encode(to: &output)
      }
    }
    guard unsaid.isEmpty, !isComplete else { return }
    isComplete = true
    ChannelFrame.complete.encode(to: &output)
    for number in asked { ChannelFrame.answer(number).encode(to: &output) }
    asked = []
  }

  // MARK: From the copy

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    take(unsafe Span<UInt8>(_unsafeBytes: bytes))
  }

  private func take(_ bytes: Span<UInt8>) {
    partial.take(bytes) { bytes in
      var offset = 0
      while !isOver {
        switch ChannelFrame.next(bytes, at: &offset) {
        case .incomplete: return offset
        case .malformed: fail("what it says of channels is malformed")
        case .complete(let frame): take(frame)
        }
      }
      return bytes.count
    }
  }

  private func take(_ frame: ChannelFrame) {
    switch frame {
    case .ask(let number): answer(number)
    case .figures(let id, let delivered, let subscriptions):
      guard let channel = register.entry(id) else { return }
      if delivered > 0 { register.add(delivered: delivered, to: id) }
      figures.subscriptions[channel.number] = Int(clamping: subscriptions)
    case .subscribers(let app, let environment, let count):
      let place = ChannelCensus.App(app: app, environment: environment)
      figures.subscribers[place] = Int(clamping: count)
    case .counted: register.subscriptionCounts.set(figures, of: .part(part))
    case .channel, .broadcast, .empty, .deleted, .complete, .answer:
      fail("it says what only the node says that has the channels")
    }
  }

  /// Behind the events that happened before: they may be on their way to this loop.
  private func answer(_ number: UInt64) {
    let (table, entry) = (connection.table, connection.entry)
    context.loop.perform {
      guard let driver = table.connection(entry)?.driver as? LinkedChannels else { return }
      if driver.isComplete { driver.say(.answer(number)) } else { driver.asked.append(number) }
    }
  }

  // MARK: The end

  private func fail(_ fault: String) {
    isOver = true
    connection.noteLinkFault(fault, .error)
    connection.close()
  }

  /// The copy connects to the node that has the channels then.
  override func drain() {
    isOver = true
    connection.close()
  }

  override func peerFinished() { drain() }

  override func connectionClosed(_ end: Connection.End) {
    isOver = true
    if let receiver { register.events.remove(receiver: receiver) }
  }
}

extension LinkedBroadcast {
  fileprivate init(_ broadcast: Broadcast) {
    self.init(
      order: broadcast.order, id: broadcast.id,
      acceptedMilliseconds: broadcast.acceptedMilliseconds,
      expirationSeconds: broadcast.expirationSeconds, priority: broadcast.priority,
      payload: broadcast.payload)
  }
}
