import ApusCore
import ApusLoop
import ApusStore

extension Service {
  /// Starts the relay: it sends what is in the store, and answers frames.
  func startRelay() throws {
    guard let relay = configuration.relay else { return }
    try relay.start(RelayHost(workers, everyone, store: store, relay: relay))
  }
}

extension RelayHost {
  /// - Parameter everyone: Workers and acceptors.
  init(
    _ workers: [Worker], _ everyone: [Worker], store: any DurableStore, relay: any UpstreamRelay
  ) {
    let byIndex = Dictionary(uniqueKeysWithValues: everyone.map { ($0.context.index, $0) })
    let first = workers[0]
    let configuration = first.context.configuration
    self.init(
      store: store, order: first.context.shared.order,
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
      ledger: (
        configuration.ledger, configuration.ledgerBounds(writerCount: workers.count + 1)
      ),
      noted: { events in first.loop.perform { first.context.noted(events) } },
      lost: { count in first.loop.perform { first.context.lostLedgerLines(count) } },
      failing: { app, environment, reason in
        first.loop.perform { first.context.reportFailing(app, environment, reason) }
      },
      readOn: {
        for worker in everyone { worker.loop.perform { worker.readOnFromPaused() } }
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
