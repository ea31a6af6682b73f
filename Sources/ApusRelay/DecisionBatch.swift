import ApusCore

/// Decisions of one turn, by the worker that they are for.
struct DecisionBatch {
  private var verdicts: [Int: [Verdict]] = [:]

  mutating func add(_ verdict: Verdict) {
    verdicts[Int(verdict.answer.worker), default: []].append(verdict)
  }

  mutating func deliver(_ deliver: (_ worker: Int, [Verdict]) -> Void) {
    guard !verdicts.isEmpty else { return }
    // The same input has the same effects, in a simulation.
    for (worker, batch) in verdicts.sorted(by: { $0.key < $1.key }) { deliver(worker, batch) }
    verdicts.removeAll(keepingCapacity: true)
  }
}
