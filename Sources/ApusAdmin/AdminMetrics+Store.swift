import ApusModel
import ApusStore

extension AdminMetrics {
  mutating func writeStore(_ facts: ServiceFacts) {
    writer.family("apus_store_available", .gauge, "Whether the store accepts writes.")
    writer.sample([:], view.store.isAvailable ? 1 : 0)
    let commits = view.store.commits
    writer.family(
      "apus_store_commit_seconds", .histogram,
      "Time for which a group of writes waited until it was durable.")
    writer.histogram(commits.durations)
    writer.family(
      "apus_store_commits_failed_total", .counter, "Groups of writes that were refused or failed.")
    writer.sample([:], commits.failedCount)
    writer.family(
      "apus_ledger_lines_lost_total", .counter,
      "Lines of the ledger that were lost while the store failed.")
    writer.sample([:], facts.lostLedgerLines)
  }
}
