import ApusCore
import ApusLoop

extension Service {
  /// Starts the relay: it sends what is in the store, and answers frames.
  func startRelay() throws {
    guard let relay = configuration.relay else { return }
    let everyone = Dictionary(uniqueKeysWithValues: everyone.map { ($0.context.index, $0) })
    try relay.start(
      RelayHost(
        store: store, order: workers[0].context.shared.order,
        deliver: { index, verdicts in
          guard let worker = everyone[index] else { return }
          worker.loop.perform { for verdict in verdicts { worker.finish(verdict) } }
        },
        refuse: { index, refusal in
          guard let worker = everyone[index] else {
            return relay.settled(refusal, isReported: false)
          }
          worker.loop.perform { worker.refuse(refusal, of: relay) }
        },
        lost: { [resends = workers[0].context.shared.resends] in resends.noteLost($0) },
        ledger: (
          configuration.ledger, configuration.ledgerBounds(writerCount: workers.count + 1)
        ),
        noted: { [worker = workers[0]] events in
          worker.loop.perform { worker.context.noted(events) }
        },
        failing: { [worker = workers[0]] app, environment, reason in
          worker.loop.perform { worker.context.reportFailing(app, environment, reason) }
        },
        readOn: {
          for worker in everyone.values {
            worker.loop.perform { worker.readOnFromPaused() }
          }
        }))
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
