import ApusLoop
import ApusModel

/// Tells connections one after the other that the service stops, so that those who are served meanwhile do not wait for
/// all of it, and peers that lose their connections do not all come back in one moment.
///
/// Devices are told first, each with a time to reconnect, and providers after them: a restart then refuses providers
/// only for a moment.
final class DrainQueue {
  private unowned let worker: Worker
  private var waiting: [(slot: Int32, generation: UInt32)]
  private let perStep: Int
  private var timer: LoopTimer?

  private static let gatewayStepMilliseconds: UInt64 = 10

  /// Old senders are told over `Limits.binaryDrainSpreadMilliseconds` at most, and a step for each of a few.
  convenience init(gateways slots: [Int32], of worker: Worker) {
    let steps = Int(Limits.binaryDrainSpreadMilliseconds / Self.gatewayStepMilliseconds)
    self.init(
      slots, of: worker, perStep: (slots.count + steps - 1) / steps,
      stepMilliseconds: Self.gatewayStepMilliseconds)
  }

  /// Devices are told as fast as that lets others be served.
  convenience init(devices slots: [Int32], of worker: Worker) {
    self.init(slots, of: worker, perStep: Limits.devicesDrainedAtOnce, stepMilliseconds: 1)
  }

  private init(_ slots: [Int32], of worker: Worker, perStep: Int, stepMilliseconds: UInt64) {
    self.worker = worker
    self.perStep = perStep
    waiting = slots.map { ($0, worker.generations[Int($0)]) }
    guard !waiting.isEmpty else { return }
    timer = LoopTimer(loop: worker.loop) { [unowned self] in step() }
    timer?.start(afterMilliseconds: stepMilliseconds, repeatMilliseconds: stepMilliseconds)
  }

  private func step() {
    for entry in waiting.suffix(perStep) {
      worker.connection(slot: entry.slot, generation: entry.generation)?.drain()
    }
    waiting.removeLast(min(perStep, waiting.count))
    if waiting.isEmpty { timer?.stop() }
  }
}
