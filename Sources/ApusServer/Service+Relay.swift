import ApusCore
import ApusLoop

extension Service {
  /// Lets the relay go on with what is in the store, and answer frames.
  func startRelay() throws {
    guard let relay = configuration.relay else { return }
    let everyone = Dictionary(uniqueKeysWithValues: everyone.map { ($0.context.index, $0) })
    try relay.start(
      RelayHost(store: store, order: workers[0].context.shared.order) { index, verdicts in
        guard let worker = everyone[index] else { return }
        worker.loop.perform { for verdict in verdicts { worker.finish(verdict) } }
      } readOn: {
        for worker in everyone.values {
          worker.loop.perform { worker.readOnFromPaused() }
        }
      })
  }
}
