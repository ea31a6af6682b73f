import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// Another node of the cluster, which has admitted notifications for the devices here: frames become notifications, and
/// verdicts go back.
final class LinkedProvider: ConnectionDriver {
  private let providers: ProviderContext
  private let shard: ShardDriver
  private let partial = PartialFrames()
  private var output: [UInt8] = []
  private var undecidedCount = 0
  private var isDraining = false
  private var isOver = false

  /// - Parameter unread: What has come already.
  init(_ connection: Connection, _ providers: ProviderContext, unread: [UInt8] = []) {
    self.providers = providers
    shard = providers.shard
    super.init(connection)
    connection.schedule.deadlineSeconds = .max
    partial.take(unread.span) { take($0) }
    if context.shutdown.isDraining { drain() }
  }

  // MARK: Notifications

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    partial.take(unsafe Span<UInt8>(_unsafeBytes: bytes)) { take($0) }
  }

  /// Takes the complete frames, and returns where the rest begins.
  private func take(_ bytes: Span<UInt8>) -> Int {
    var offset = 0
    while !isOver, let count = LinkedNotification.byteCount(bytes.extracting(offset...)) {
      guard count <= 4 + LinkedNotification.mostBytes else {
        fail("a notification is too long")
        break
      }
      guard bytes.count - offset >= count else { break }
      submit(bytes.extracting(offset..<offset + count))
      offset += count
    }
    return isOver ? bytes.count : offset
  }

  private func submit(_ frame: Span<UInt8>) {
    let notification = shard.takeNotification()
    guard let number = LinkedNotification.decode(frame, into: notification) else {
      return fail("a notification is malformed: do the nodes have different versions?")
    }
    guard context.decides(about: notification.claims.device) else {
      return fail("another node decides about the device of a notification")
    }
    undecidedCount += 1
    let answer = Answer(
      worker: UInt16(context.index), link: UInt32(connection.slot),
      generation: connection.entry.generation, number: number)
    if let verdict = providers.router.route(notification, answer) { decided(verdict) }
  }

  private func fail(_ fault: String) {
    isOver = true
    connection.noteLinkFault(fault, .error)
    connection.close()
  }

  override func decided(_ verdict: Verdict) {
    let number = verdict.answer.sequence
    if let notice = verdict.notice {
      guard let linked = LinkVerdict.Notice(notice) else { return }
      LinkVerdict(number: number, notice: linked).encode(to: &output)
    } else {
      undecidedCount -= 1
      LinkVerdict(number: number, rejection: verdict.rejection).encode(to: &output)
    }
    connection.markDirty()
  }

  override var wantsPause: Bool {
    isDraining || undecidedCount >= Limits.linkWindow || shard.mustPause(undecided: undecidedCount)
  }

  // MARK: Verdicts

  override func flush() -> Connection.Ending {
    if !output.isEmpty, connection.mayWrite {
      connection.encrypt(output, count: output.count)
      output.removeAll(keepingCapacity: true)
    }
    return isDraining && undecidedCount == 0 && output.isEmpty ? .now : .none
  }

  // MARK: The end

  /// The service shuts down: what came is still decided.
  override func drain() {
    isDraining = true
    connection.markDirty()
  }

  override func peerFinished() { drain() }
}

extension LinkVerdict.Notice {
  /// Nil for a notice that no other node gives.
  fileprivate init?(_ notice: Verdict.Notice) {
    switch notice {
    case .flood: self = .flood
    case .heldBack: self = .heldBack
    case .admitted: self = .admitted
    case .answered: return nil
    }
  }

  var forSender: Verdict.Notice {
    switch self {
    case .flood: .flood
    case .heldBack: .heldBack
    case .admitted: .admitted
    }
  }
}
