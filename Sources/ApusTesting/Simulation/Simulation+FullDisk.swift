import ApusModel

// A full disk, and law 7: no device loses its connection, and providers get an answer immediately.

extension Simulation {
  /// Plans a full disk for that time.
  func planFullDisk(_ seconds: Range<Int>) {
    let end = UInt64(seconds.upperBound) * Timeline.second
    timeline.at(UInt64(seconds.lowerBound) * Timeline.second) { [weak self] in
      guard let self else { return }
      trace("disk full", seconds.count)
      for part in parts { part.disk.fullTime = timeline.now..<end }
      diskTroubledUntil = max(diskTroubledUntil, end + 10 * Timeline.second)
    }
  }

  /// Whether the disk with a device's rows is full, and nothing else has been wrong for a minute.
  func hasOnlyFullDisk(_ device: Int) -> Bool {
    parts[part(of: device)].disk.isFull
      && isUntroubledButForDisk(since: timeline.now - min(timeline.now, Self.quiet))
  }

  private static let quiet = 60 * Timeline.second

  private func isUntroubledButForDisk(since time: UInt64) -> Bool {
    areServing && upSince < time && !network.isDown
      && max(troubledUntil, linksCutUntil, disksSlowUntil, oracle.clockSetTime) < time
  }

  /// Checks a provider that has waited for an answer since then. The store refuses immediately, so no timeout of the
  /// device or the service applies.
  func checkWaiting(since time: UInt64) {
    let full = parts.compactMap(\.disk.fullSince).min()
    guard timeline.now - time > Self.longestAnswer, let full, full < time,
      isUntroubledButForDisk(since: time)
    else { return }
    oracle.violated(.fullDiskAnswers, "a provider gets no answer while the disk is full")
  }

  /// Below `Limits.answerSeconds`.
  static let longestAnswer = 15 * Timeline.second

  /// Checks an answer to a provider.
  func checkAnswer(_ serial: Int, status: Int) {
    if status > 503 || 500..<503 ~= status {
      oracle.violated(.fullDiskAnswers, "notification \(serial) was answered \(status)")
    }
    guard let full = parts[part(of: oracle.sent[serial].device)].disk.fullSince else { return }
    if status == 503 { refusedWhileFull += 1 }
    if status == 200 { oracle.acceptedWithoutStore(serial, fullSince: full) }
  }
}
