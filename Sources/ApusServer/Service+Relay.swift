import ApusCore
import ApusLoop
import ApusStore

extension Service {
  /// Starts the relay: it sends what is in the store, and answers frames.
  func startRelay() throws {
    guard let relay = configuration.relay else { return }
    try relay.start(RelayHost(everyone, store: store, relay: relay))
  }
}

extension RelayHost {
  /// - Parameter everyone: All workers and acceptors.
  init(_ everyone: [Worker], store: any DurableStore, relay: any UpstreamRelay) {
    let byIndex = Dictionary(uniqueKeysWithValues: everyone.map { ($0.context.index, $0) })
    self.init(
      store: store, order: everyone[0].context.shared.order,
      deliver: { index, verdicts in
        guard let worker = byIndex[index] else { return }
        worker.loop.perform { for verdict in verdicts { worker.finish(verdict) } }
      },
      refuse: { index, refusal in
        guard let worker = byIndex[index] else {
          return relay.settled(refusal, isReported: false)
        }
        worker.loop.perform { worker.refuse(refusal, of: relay) }
      },
      readOn: {
        for worker in everyone {
          worker.loop.perform { worker.readOnFromPaused() }
        }
      })
  }
}

extension Worker {
  /// Tells the sender of a notification, if it is still connected, that upstream has rejected it.
  fileprivate func refuse(_ refusal: RelayRefusal, of relay: any UpstreamRelay) {
    let answer = refusal.answer
    let entry = DeadlineWheel.Entry(slot: Int32(answer.slot), generation: answer.generation)
    if let provider = connections.connection(entry)?.driver as? BinaryProvider,
      provider.refuse(refusal, of: relay)
    {
      return
    }
    context.shared.resends.noteRefused(refusal.id, refusal.status)
    relay.settled(refusal, isReported: false)
  }
}
