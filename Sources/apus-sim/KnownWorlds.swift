import ApusTesting

/// A world that is run each time, whatever the seeds of others.
private struct KnownWorld {
  let name: String
  let options: Simulation.Options
  /// What must be true besides the laws.
  var isGood: (Simulation.Report) -> Bool = { _ in true }

  static var all: [KnownWorld] { [filterUnderWay, fullDisk] }

  /// In this world a device that is cut off switches a topic on while the disk is full: the service cannot know yet,
  /// and discards.
  private static var filterUnderWay: KnownWorld {
    var options = Simulation.Options(seed: 176_301_652_618_659, seconds: 1800)
    (options.hasChannels, options.nodes) = (false, 1)
    return KnownWorld(name: "a filter that is under way", options: options)
  }

  private static var fullDisk: KnownWorld {
    var options = Simulation.Options(seed: 1, seconds: 4200)
    options.fullDiskSeconds = 300..<3900
    return KnownWorld(name: "a disk that is full for an hour", options: options) { report in
      report.undeliveredWhileFull == 0 && report.refusedWhileFull > 0
        && report.acceptedAfterFull > 0
    }
  }
}

extension Sim {
  /// Returns true if no law was broken in any world that is always run.
  static func runKnownWorlds() throws -> Bool {
    var isGood = true
    for world in KnownWorld.all {
      let report = try Simulation(world.options).run()
      let isWorldGood = report.violations.isEmpty && world.isGood(report)
      for violation in report.violations { print("broken: \(violation)") }
      print(
        "\(world.name): \(isWorldGood ? "no law broken" : "broken"), \(report.accepted) accepted, "
          + "while the disk was full \(report.refusedWhileFull) refused and "
          + "\(report.undeliveredWhileFull) not delivered")
      if !isWorldGood { isGood = false }
    }
    return isGood
  }
}
