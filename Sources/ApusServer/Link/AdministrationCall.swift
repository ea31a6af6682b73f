import ApusAdmin
import ApusLoop
import ApusModel
import ApusWire

/// One request of an edge's administration to that of the node that decides. Confined to its worker; keeps itself alive
/// until it is over.
final class AdministrationCall {
  typealias Completion = @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void

  private let context: WorkerContext
  private let edge: Edge
  private let request: [UInt8]
  private let mayBeRepeated: Bool
  private let startMilliseconds: UInt64
  private var stream: LinkStream?
  private var isSent = false
  private var input: [UInt8] = []
  private var lastFault = "no node serves at the moment"
  private var timer: LoopTimer?
  private var done: Completion?

  private static let tickMilliseconds: UInt64 = 100

  init(
    _ context: WorkerContext, _ edge: Edge, _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping Completion
  ) {
    self.context = context
    self.edge = edge
    self.request = request
    self.mayBeRepeated = mayBeRepeated
    self.done = done
    startMilliseconds = context.loop.nowMilliseconds
  }

  func begin() {
    let timer = LoopTimer(loop: context.loop) { [self] in tick() }
    timer.start(
      afterMilliseconds: Self.tickMilliseconds, repeatMilliseconds: Self.tickMilliseconds)
    self.timer = timer
    connect()
  }

  private var elapsedMilliseconds: UInt64 { context.loop.nowMilliseconds - startMilliseconds }

  private func tick() {
    if let stream, !stream.isCurrent(edge) {
      stream.abort()
      lost("another node serves now")
    }
    if edge.isSurrendered {
      lastFault = "this node takes over; try again"
      return giveUp()
    }
    let limit =
      isSent ? Limits.linkAdministrationMilliseconds : Limits.linkWaitMilliseconds
    if elapsedMilliseconds >= limit { return giveUp() }
    connect()
  }

  private func connect() {
    guard done != nil, stream == nil, let target = edge.target else { return }
    do {
      stream = try LinkStream(
        target, context, silenceMilliseconds: Limits.linkWaitMilliseconds, user: self)
    } catch {
      lastFault = "\(error)"
    }
  }

  /// What may have been done is not asked for again.
  private func lost(_ fault: String) {
    stream = nil
    input = []
    lastFault = "the node that serves is not reached: \(fault)"
    guard isSent else { return }
    if mayBeRepeated { isSent = false } else { end(.failure(.lost(fault))) }
  }

  private func giveUp() {
    end(.failure(isSent ? .lost("no answer in time") : .notReached(lastFault)))
  }

  private func end(_ result: Result<[UInt8], DecidingNodeFault>) {
    stream?.close()
    stream = nil
    timer = nil
    done.take()?(result)
  }
}

extension AdministrationCall: LinkStreamUser {
  func linkOpened() {
    isSent = true
    var output = edge.preface(.administration)
    LinkExchange.encode(request, to: &output)
    stream?.write(output)
  }

  func linkReceived(_ bytes: Span<UInt8>) {
    input.append(bytes)
    let received = input
    switch LinkExchange.read(received.span, atMost: Limits.linkAnswerBytes) {
    case .incomplete: return
    case .tooLong: end(.failure(.lost("the answer is too long")))
    case .complete(let answer): end(.success(answer))
    }
  }

  func linkDrained() {}

  func linkFinished() {
    stream?.close()
    lost("it ended the connection")
  }

  func linkLost(_ fault: String) { lost(fault) }
}
