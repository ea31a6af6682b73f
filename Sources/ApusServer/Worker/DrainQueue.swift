import ApusCore
import ApusLoop
import ApusModel

/// Tells connections one after the other that the service shuts down, so that other connections are still served
/// meanwhile, and peers do not all reconnect at the same moment.
///
/// Devices are told first, each with a time to reconnect, and providers after them: so a restart turns providers away
/// only briefly.
final class DrainQueue {
  private unowned let connections: ConnectionTable
  private var waiting: [DeadlineWheel.Entry]
  private let perStep: Int
  private var timer: LoopTimer?

  private static let gatewayStepMilliseconds: UInt64 = 10

  /// Tells binary providers in steps, all within `Limits.binaryDrainSpreadMilliseconds`.
  convenience init(gateways slots: [Int32], of connections: ConnectionTable) {
    let steps = Int(Limits.binaryDrainSpreadMilliseconds / Self.gatewayStepMilliseconds)
    self.init(
      slots, of: connections, perStep: (slots.count + steps - 1) / steps,
      stepMilliseconds: Self.gatewayStepMilliseconds)
  }

  /// Tells devices as fast as possible while others are still served.
  convenience init(devices slots: [Int32], of connections: ConnectionTable) {
    self.init(slots, of: connections, perStep: Limits.devicesDrainedAtOnce, stepMilliseconds: 1)
  }

  private init(
    _ slots: [Int32], of connections: ConnectionTable, perStep: Int, stepMilliseconds: UInt64
  ) {
    self.connections = connections
    self.perStep = perStep
    waiting = slots.map(connections.entry(at:))
    guard !waiting.isEmpty else { return }
    timer = LoopTimer(loop: connections.context.loop) { [unowned self] in step() }
    timer?.start(afterMilliseconds: stepMilliseconds, repeatMilliseconds: stepMilliseconds)
  }

  private func step() {
    for entry in waiting.suffix(perStep) {
      connections.connection(entry)?.drain()
    }
    waiting.removeLast(min(perStep, waiting.count))
    if waiting.isEmpty { timer?.stop() }
  }
}
