import ApusCore
package import ApusModel

/// A shard with random providers, devices and disks, checked against the service's laws after each step.
package struct ShardWalk {
  package let seed: UInt64
  /// What contradicts a law, and where; nil if nothing does.
  package private(set) var fault: String?
  private let model: ShardModel

  /// Runs the walk: the same for the same seed and number of steps.
  package init(seed: UInt64, steps: Int) {
    self.seed = seed
    var walker = Walker(seed: seed)
    model = walker.model
    for step in 0..<steps {
      let verb = walker.step()
      model.check()
      guard model.faults.isEmpty else {
        fail("step \(step), \(verb)")
        return
      }
    }
    for device in model.devices {
      model.cycle(device)
      model.check()
    }
    if !model.faults.isEmpty { fail("at the end") }
  }

  private mutating func fail(_ place: String) {
    fault = "seed \(seed), \(place): \(model.faults.joined(separator: "; "))"
  }

  /// How many notifications reached the state.
  package func count(_ state: DeliveryState) -> UInt64 { model.count(state) }
}
