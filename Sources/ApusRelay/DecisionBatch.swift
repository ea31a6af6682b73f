import ApusCore

/// Decisions of one turn, by the worker that they are for.
struct DecisionBatch {
  /// By the worker's index.
  private var verdicts: [[Verdict]] = []

  mutating func add(_ verdict: Verdict) {
    let worker = Int(verdict.answer.worker)
    while verdicts.count <= worker { verdicts.append([]) }
    verdicts[worker].append(verdict)
  }

  mutating func deliver(_ deliver: (_ worker: Int, [Verdict]) -> Void) {
    // The same input has the same effects, in a simulation.
    for worker in verdicts.indices where !verdicts[worker].isEmpty {
      var batch: [Verdict] = []
      swap(&batch, &verdicts[worker])
      deliver(worker, batch)
    }
  }
}
