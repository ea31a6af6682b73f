import ApusTesting
import Testing

@testable import ApusClient

@Suite("Outcomes are correct whatever a service does")
struct LawTests {
  /// Each push has one outcome; none is accepted twice; accepted ones were accepted, and rejected or certainly unsent
  /// ones were not; and the client makes no protocol error.
  @Test("Outcomes are correct with random scripts", .timeLimit(.minutes(30)))
  func randomScripts() {
    let fixed = (1...50).map(UInt64.init)
    let fresh = (0..<30).map { _ in UInt64.random(in: 1...999_999_999) }
    for seed in fixed + fresh {
      let world = ScriptedWorld(seed: seed)
      world.run(steps: 400)
      #expect(world.broken.isEmpty, "seed \(seed): \(world.broken.prefix(3))")
      if !world.broken.isEmpty { return }
    }
  }

  @Test("The scripts reach every kind of outcome")
  func variety() {
    var accepted = 0
    var rejected = 0
    var lost = 0
    var notSent = 0
    for seed in 1...60 as ClosedRange<UInt64> {
      let world = ScriptedWorld(seed: seed)
      world.run(steps: 400)
      for outcome in world.outcomes.values.joined() {
        switch outcome {
        case .accepted: accepted += 1
        case .rejected: rejected += 1
        case .unknown(_, retryMayDuplicate: true): lost += 1
        case .unknown(_, retryMayDuplicate: false): notSent += 1
        }
      }
    }
    for count in [accepted, rejected, lost, notSent] { #expect(count > 20) }
  }
}
