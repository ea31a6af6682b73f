import ApusCore
import ApusModel

extension ClusterNode {
  // MARK: What the database answers

  func receive(_ answer: ClusterAnswer, _ purpose: Purpose, atMilliseconds now: UInt64) {
    guard !hasEnded else { return }
    switch purpose {
    case .register(let sent): registered(answer, sent)
    case .renew(let number): renewed(answer, number, now)
    case .look: looked(answer, now)
    case .fence: fenceAnswered(answer, now)
    case .readRows: rowsRead(answer, now)
    case .readRow(let partition): rowRead(answer, of: partition, now)
    case .load(let partition, let epoch):
      if case .done = answer { loaded[partition] = epoch }
      loading[partition] = nil
    case .open(let lane): opened(answer, lane, now)
    case .group(let group): groupAnswered(answer, group, now)
    case .release: hasEnded = true
    case .ownFence, .order: break
    }
    drive(atMilliseconds: now)
  }

  private func registered(_ answer: ClusterAnswer, _ sent: UInt64) {
    isRegistering = false
    switch answer {
    case .done: lease = Lease(sentMilliseconds: sent)
    // It may have the lease, which then nobody else renews: another start must wait for it.
    case .unknown: hasEnded = true
    case .fenced, .refused, .view, .opened: break
    }
  }

  private func renewed(_ answer: ClusterAnswer, _ number: UInt64, _ now: UInt64) {
    switch answer {
    case .done:
      lease?.renewed(number: number)
      if canary == .countsFromConfirmation { lease = Lease(sentMilliseconds: now) }
    case .fenced: lease?.fenced()
    case .unknown, .refused, .view, .opened:
      lease?.renewalFailed(number: number, atMilliseconds: now)
    }
  }

  private func looked(_ answer: ClusterAnswer, _ now: UInt64) {
    isLooking = false
    guard case .view(let leases, let rows) = answer else { return watch.disconnected() }
    if canary == .neverCounts { watch.disconnected() }
    watch.observe(leases, atMilliseconds: now)
    note(rows)
    plan(atMilliseconds: now)
  }

  private func note(_ rows: [Partition: PartitionRow]) {
    for (partition, row) in rows { map.note(row, of: partition) }
  }

  private func fenceAnswered(_ answer: ClusterAnswer, _ now: UInt64) {
    switch answer {
    case .done: takeOver?.fenced()
    case .refused: takeOver?.foundAlive()
    case .unknown, .fenced, .view, .opened: takeOver?.failed(atMilliseconds: now)
    }
  }

  private func rowsRead(_ answer: ClusterAnswer, _ now: UInt64) {
    guard case .view(_, let rows) = answer else { return failTakeOver(now) }
    note(rows)
    takeOver?.read(map, placement: makePlan().placement, own: own)
  }

  private func failTakeOver(_ now: UInt64) { takeOver?.failed(atMilliseconds: now) }

  private func rowRead(_ answer: ClusterAnswer, of partition: Partition, _ now: UInt64) {
    guard case .view(_, let rows) = answer, let row = rows[partition] else {
      handOvers[partition]?.failed(atMilliseconds: now)
      return
    }
    note(rows)
    handOvers[partition]?.read(row)
  }

  private func opened(_ answer: ClusterAnswer, _ lane: Int, _ now: UInt64) {
    lanes[lane].isOpening = false
    switch answer {
    case .opened(let session, let group):
      lanes[lane].session = session
      if let open = lanes[lane].open {
        lanes[lane].open = nil
        if open.number <= group { stored(open, now) }
      }
      lanes[lane].group = max(lanes[lane].group, group)
    case .fenced: lease?.fenced()
    case .done, .refused, .view, .unknown:
      lanes[lane].dueMilliseconds = now + Limits.clusterRetryMilliseconds
    }
  }

  /// Answers what is stored now.
  private func stored(_ group: ClusterGroup, _ now: UInt64) {
    guard case .record(let partition, let epoch) = group.content,
      lease?.mayDecide(atMilliseconds: now) == true
    else { return }
    verdicts.append((partition, epoch))
  }

  private func groupAnswered(_ answer: ClusterAnswer, _ group: ClusterGroup, _ now: UInt64) {
    if case .fenced = answer { lease?.fenced() }
    switch (group.content, answer) {
    case (.record, .done): stored(group, now)
    case (.claim, .view(_, let rows)):
      note(rows)
      takeOver?.claimed()
    case (.handOver(let handOver), .done):
      map.note(handOver.row, of: handOver.partition)
      handOvers[handOver.partition]?.written()
    default:
      // Also if it was refused: an earlier attempt to open the lane may have taken effect late.
      lanes[group.lane].session = nil
      return groupFailed(group, now)
    }
    lanes[group.lane].open = nil
  }

  private func groupFailed(_ group: ClusterGroup, _ now: UInt64) {
    switch group.content {
    case .record: break
    case .claim: failTakeOver(now)
    case .handOver(let handOver):
      handOvers[handOver.partition]?.failed(atMilliseconds: now)
      guard canary == .assumesNotWritten else { return }
      handOvers[handOver.partition] = nil
      stopped.remove(handOver.partition)
    }
  }
}
