import ApusModel

// A disk without room, and law 7: it costs no device its connection, and providers hear of it at once.

extension Simulation {
  /// No room on the disk for that long.
  func planFullDisk(_ seconds: Range<Int>) {
    let end = UInt64(seconds.upperBound) * Timeline.second
    timeline.at(UInt64(seconds.lowerBound) * Timeline.second) { [weak self] in
      guard let self else { return }
      trace("disk full", seconds.count)
      disk.fullTime = timeline.now..<end
      diskTroubledUntil = max(diskTroubledUntil, end + 10 * Timeline.second)
    }
  }

  /// Whether the disk has no room, and nothing else has been amiss for a minute.
  var hasOnlyFullDisk: Bool {
    disk.isFull && isUntroubledButForDisk(since: timeline.now - min(timeline.now, Self.quiet))
  }

  private static let quiet = 60 * Timeline.second

  private func isUntroubledButForDisk(since time: UInt64) -> Bool {
    server.isServing && server.upSince < time && !network.isDown
      && max(troubledUntil, disk.slowUntil, oracle.clockSetTime) < time
  }

  /// A provider has waited since then for an answer. The store refuses at once, so that it is neither the device's nor
  /// the service's limit of time that answers.
  func checkWaiting(since time: UInt64) {
    guard timeline.now - time > Self.longestAnswer, let full = disk.fullSince, full < time,
      isUntroubledButForDisk(since: time)
    else { return }
    oracle.violated("law 7: the disk is full, and a provider has no answer")
  }

  /// Below `Limits.answerSeconds`.
  private static let longestAnswer = 15 * Timeline.second

  /// A provider has its answer.
  func checkAnswer(_ serial: Int, status: Int) {
    if status > 503 || 500..<503 ~= status {
      oracle.violated("law 7: notification \(serial) was answered \(status)")
    }
    guard let full = disk.fullSince else { return }
    if status == 503 { refusedWhileFull += 1 }
    if status == 200 { oracle.acceptedWithoutStore(serial, fullSince: full) }
  }
}
