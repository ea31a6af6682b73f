import ApusRandom
import ApusModel

// Faults of a device's connection, caused by the device or by the service.

extension SimulatedDevice {
  enum Trouble: Int, CaseIterable {
    case closes, resets, vanishes, connectsTwice, stopsReading, isCutOff
  }

  func suffer(_ trouble: Trouble) {
    guard let channel else { return }
    world.trace("device trouble", index, trouble.rawValue, channel.number)
    switch trouble {
    case .closes, .resets:
      channel.drop(resets: trouble == .resets)
      lost()
      connectLater()
    case .vanishes:
      channel.vanish(probed: false)
      lost()
      connectLater()
    case .connectsTwice:
      ghosts.append(channel)
      lost()
      connect()
    case .stopsReading:
      let link = channel.link
      link?.isPeerReading = false
      disturbed()
      world.timeline.after(hinder(random.between(1, 90))) { [weak self] in
        link?.isPeerReading = true
        self?.disturbed()
      }
    case .isCutOff:
      let link = channel.link
      link?.cut()
      disturbed()
      world.timeline.after(hinder(random.between(1, 120))) { [weak self] in
        link?.heal()
        self?.disturbed()
      }
    }
  }

  func connectLater() {
    let wait = random.between(300, 8_000) * 1000
    world.timeline.after(wait) { [weak self] in self?.connect() }
  }

  /// Tells the oracles once an acknowledgement on that connection is processed, if nothing has disturbed it since the
  /// arrival: another node may have taken over, which has not sent the notification itself.
  func settle(_ serial: Int?, _ broadcast: Int?, on channel: ClientChannel) {
    guard serial != nil || broadcast != nil else { return }
    world.settle { [weak self, weak channel] in
      guard let channel, self?.channel === channel else { return nil }
      return channel.link
    } completion: { [weak self] in
      guard let self else { return }
      if let serial { world.oracle.settled(serial) }
      if let broadcast { world.broadcasts.oracle.settled(broadcast, index) }
    }
  }

  /// Records how long the connection is affected, and returns that time in microseconds.
  private func hinder(_ seconds: UInt64) -> UInt64 {
    let wait = seconds * Timeline.second
    hinderedUntil = max(hinderedUntil, world.timeline.now + wait)
    return wait
  }

  /// Checks connections that the service ended or left silent: a full disk alone is no reason for that.
  func checkStays() {
    let since = world.timeline.now - min(world.timeline.now, 10 * Timeline.second)
    guard let steadySince, max(steadySince, hinderedUntil) < since,
      serverGeneration == world.generation,
      hasAcknowledged(since: since), world.hasOnlyFullDisk(index)
    else { return }
    world.oracle.violated(
      .fullDiskDevices, "device \(index) lost its connection because of a full disk")
  }
}
