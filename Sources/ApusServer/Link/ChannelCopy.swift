import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusWire

/// Keeps this node's register of channels a copy of that of the node which has them, and tells that node what devices
/// here do.
///
/// The copy is in the store as well, so that devices get what channels keep while that node is away. Confined to the
/// loop of one worker, except where it is said.
@safe final class ChannelCopy: @unchecked Sendable {
  private typealias Waiting = (limitMilliseconds: UInt64, done: @Sendable (Bool) -> Void)

  private let context: WorkerContext
  private let edge: Edge
  private let register: ChannelRegister
  private var stream: LinkStream?
  private let partial = PartialFrames()
  private var dialing = LinkDialing()
  private var timer: LoopTimer?
  /// The order of the last broadcast that came of each channel, as the other node counts.
  private var orders: [ChannelID: UInt64] = [:]
  /// The channels of which the other node has spoken on this link; nil once it has spoken of all.
  private var known: Set<ChannelID>? = []
  /// What could not be written, and when it is tried again.
  private var unwritten: [ChannelFrame] = []
  private var retryMilliseconds: UInt64 = 0
  /// False breaks the rule that it is, for simulations that are to notice.
  var retriesUnwritten = true
  private var questions: [UInt64: Waiting] = [:]
  private var lastQuestion: UInt64 = 0
  /// What the other node was told on this link.
  private var told = SubscriptionCounts.Part()
  private var countsTold: UInt64?
  private var nextFiguresMilliseconds: UInt64 = 0

  private static let tickMilliseconds: UInt64 = 100
  private static let figuresMilliseconds: UInt64 = 1000
  private static let pauseMilliseconds: UInt64 = 1000

  init(_ context: WorkerContext, _ edge: Edge) {
    self.context = context
    self.edge = edge
    register = context.shared.channels
    let timer = LoopTimer(loop: context.loop) { [unowned self] in tick() }
    timer.start(
      afterMilliseconds: Self.tickMilliseconds, repeatMilliseconds: Self.tickMilliseconds)
    self.timer = timer
    register.source = self
  }

  /// Another node has the channels, or none.
  func targetChanged() {
    if let stream, stream.isCurrent(edge) { return }
    dropStream()
    dialing.hurry()
    connect()
  }

  func dismantle() {
    register.source = nil
    dropStream()
    for question in questions.values { question.done(false) }
    questions = [:]
    timer = nil
  }

  // MARK: The connection

  private func tick() {
    connect()
    let now = context.loop.nowMilliseconds
    for (number, question) in questions where question.limitMilliseconds <= now {
      questions[number] = nil
      question.done(false)
    }
    if now >= retryMilliseconds { retry() }
    if now >= nextFiguresMilliseconds {
      nextFiguresMilliseconds = now + Self.figuresMilliseconds
      sayFigures()
    }
  }

  private func connect() {
    guard timer != nil, stream == nil else { return }
    do {
      stream = try dialing.dial(
        edge, context, silenceMilliseconds: Limits.linkWaitMilliseconds, user: self)
    } catch {
      // The worker's `Uplink` warns of a node that is not reached.
      dropStream()
    }
  }

  private func dropStream() {
    stream?.close()
    stream = nil
    partial.removeAll()
    (known, told, countsTold) = ([], SubscriptionCounts.Part(), nil)
  }

  private func say(_ frames: [ChannelFrame]) {
    var output: [UInt8] = []
    for frame in frames { frame.encode(to: &output) }
    stream?.write(output)
  }

  // MARK: From the node that has the channels

  private func take(_ frame: ChannelFrame) {
    switch frame {
    case .channel(let channel):
      known?.insert(channel.id)
      learn(channel)
    case .broadcast(let id, let broadcast): take(broadcast, on: id)
    case .empty(let id): register.empty(id)
    case .deleted(let id): delete(id)
    case .complete:
      let all = known ?? []
      known = nil
      for channel in register.all() where !all.contains(channel.id) { delete(channel.id) }
    case .answer(let number): questions.removeValue(forKey: number)?.done(true)
    case .ask, .figures, .subscribers, .counted: dropStream()
    }
  }

  private func learn(_ channel: Channel) {
    if register.entry(channel.id) == nil { save(channel) }
  }

  private func save(_ channel: Channel) {
    write { [register] in
      register.copy(channel, completion: $0)
    } failed: { _ in
      .channel(channel)
    }
  }

  private func take(_ broadcast: LinkedBroadcast, on id: ChannelID) {
    guard let entry = register.entry(id), orders[id] ?? 0 < broadcast.order else { return }
    orders[id] = broadcast.order
    // It comes again with each link, for as long as the channel keeps it.
    guard entry.stored?.id != broadcast.id else { return }
    let draft = BroadcastDraft(broadcast)
    write { [register] in
      register.publish(draft, on: entry, completion: $0)
    } failed: {
      // A newer one takes its place.
      guard $0.orders[id] == broadcast.order else { return nil }
      $0.orders[id] = broadcast.order - 1
      return .broadcast(id, broadcast)
    }
  }

  private func delete(_ id: ChannelID) {
    guard let channel = register.entry(id)?.channel else { return }
    (orders[id], told.subscriptions[register.entry(id)?.number ?? 0]) = (nil, nil)
    write { [register] in
      register.delete(channel, completion: $0)
    } failed: { _ in
      .deleted(id)
    }
  }

  private func retry() {
    let frames = unwritten
    unwritten = []
    for frame in frames {
      guard case .channel(let channel) = frame else {
        take(frame)
        continue
      }
      // It may have ended meanwhile.
      if register.entry(channel.id) != nil { save(channel) }
    }
  }

  /// - Parameter failed: Returns what is to be tried again, as the other node says it.
  private func write(
    _ begin: (@escaping @Sendable (StoreError?) -> Void) -> Void,
    failed: @escaping @Sendable (ChannelCopy) -> ChannelFrame?
  ) {
    begin { [weak self, context] error in
      guard let error else { return }
      context.loop.perform { [weak self] in
        guard let self else { return }
        context.log.limited(
          .warning, .channelNotWritten, atMilliseconds: context.loop.nowMilliseconds
        ) {
          [.text("reason", "\(error)")]
        }
        if let frame = failed(self), retriesUnwritten { unwritten.append(frame) }
        retryMilliseconds = context.loop.nowMilliseconds + Self.pauseMilliseconds
      }
    }
  }

  // MARK: To the node that has the channels

  /// Says what has changed of the figures.
  private func sayFigures() {
    guard let stream, stream.isOpen else { return }
    let delivered = register.takeDelivered()
    let counts = register.subscriptionCounts.sum(after: countsTold)
    guard !delivered.isEmpty || counts != nil else { return }
    let now = counts?.part ?? told
    var frames: [ChannelFrame] = []
    for entry in register.entries() {
      let count = now.subscriptions[entry.number] ?? 0
      let acknowledged = delivered[entry.channel.id] ?? 0
      guard acknowledged > 0 || count != told.subscriptions[entry.number] ?? 0 else { continue }
      frames.append(
        .figures(
          entry.channel.id, delivered: acknowledged, subscriptions: UInt64(clamping: count)))
    }
    for place in Set(now.subscribers.keys).union(told.subscribers.keys) {
      let count = now.subscribers[place] ?? 0
      guard count != told.subscribers[place] ?? 0 else { continue }
      frames.append(.subscribers(place.app, place.environment, UInt64(clamping: count)))
    }
    if let counts {
      if counts.isComplete { frames.append(.counted) }
      countsTold = counts.version
    }
    told = now
    say(frames)
  }
}

extension ChannelCopy: ChannelSource {
  func bringUpToDate(_ done: @escaping @Sendable (Bool) -> Void) {
    context.loop.perform { [weak self] in
      guard let self, timer != nil else { return done(false) }
      lastQuestion += 1
      questions[lastQuestion] = (
        context.loop.nowMilliseconds + Limits.linkWaitMilliseconds, done
      )
      // Without a link, the next one begins with the questions.
      if stream?.isOpen == true { say([.ask(lastQuestion)]) }
    }
  }
}

extension ChannelCopy: LinkStreamUser {
  func linkOpened() {
    let part = context.configuration.share.part ?? 0
    stream?.write(edge.preface(.channels) + [UInt8(part)])
    say(questions.keys.sorted().map { .ask($0) })
    sayFigures()
  }

  func linkReceived(_ bytes: Span<UInt8>) {
    partial.take(bytes) { bytes in
      var offset = 0
      while stream != nil {
        switch ChannelFrame.next(bytes, at: &offset) {
        case .incomplete: return offset
        case .malformed: dropStream()
        case .complete(let frame): take(frame)
        }
      }
      return bytes.count
    }
  }

  func linkDrained() {}

  func linkFinished() { dropStream() }

  func linkLost(_ fault: String) {
    stream = nil
    dropStream()
  }
}

extension BroadcastDraft {
  fileprivate init(_ broadcast: LinkedBroadcast) {
    self.init(
      id: broadcast.id, acceptedMilliseconds: broadcast.acceptedMilliseconds,
      expirationSeconds: broadcast.expirationSeconds, priority: broadcast.priority,
      payload: broadcast.payload)
  }
}
