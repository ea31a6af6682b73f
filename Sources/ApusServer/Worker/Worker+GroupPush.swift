import ApusCore
import ApusDirectory
import ApusJobs
import ApusModel
import ApusTrust

/// Parts of pushes to many devices that are not decided yet, by their numbers.
struct GroupPushTable {
  typealias Answering = @Sendable ([PlacedOutcome]) -> Void

  private struct Part {
    var outcomes: [PlacedOutcome]
    var open: Int
    var answer: Answering
  }

  private var parts: [UInt32: Part] = [:]
  private var next: UInt32 = 0

  mutating func open(places: [UInt32], _ answer: @escaping Answering) -> UInt32 {
    next &+= 1
    parts[next] = Part(
      outcomes: places.map { PlacedOutcome(place: $0, outcome: .unavailable) },
      open: places.count, answer: answer)
    return next
  }

  /// Notes the outcome of the device at `index` of a part, and answers if it was the last one.
  mutating func finish(_ number: UInt32, index: UInt32, _ outcome: GroupOutcome) {
    guard var part = parts.removeValue(forKey: number) else { return }
    part.outcomes[Int(index)].outcome = outcome
    part.open -= 1
    if part.open == 0 { part.answer(part.outcomes) } else { parts[number] = part }
  }
}

extension Worker {
  /// Decides about a push to several devices, all of which this worker owns, as about providers' requests.
  ///
  /// - Parameter done: Called once, unless the store never reports an outcome.
  func send(_ batch: GroupBatch, _ done: @escaping GroupPushTable.Answering) {
    var push: AdmittedGroupPush
    do throws(Refusal) {
      push = try batch.push.admitted(by: context.trust.directory)
    } catch {
      return done(batch.places.map { PlacedOutcome(place: $0, outcome: .refused) })
    }
    let part = groupPushes.open(places: batch.places, done)
    var verdicts: [Verdict] = []
    for (index, device) in batch.devices.enumerated() {
      let notification = devices.takeNotification()
      push.fill(notification, for: device, nowMilliseconds: context.wallMilliseconds) {
        context.sealer.seal($0)
      }
      notification.id = PushJob.notificationID(batch.job, place: batch.places[index])
      notification.uniqueID = context.ids.next()
      notification.mayBeRepeated = batch.mayBeRepeated
      let answer = Answer(
        worker: UInt16(context.index), groupPush: part, place: UInt32(index))
      if let verdict = router.route(notification, answer) { verdicts.append(verdict) }
    }
    // The journal has the lines of a notification before its answer leaves.
    devices.gatherLedger()
    for verdict in verdicts { finish(verdict) }
  }

  func finishGroupPush(_ verdict: Verdict) {
    if let rejection = verdict.rejection { devices.noteRejection(rejection.reason) }
    groupPushes.finish(
      verdict.answer.slot, index: verdict.answer.sequence, GroupOutcome(verdict.rejection))
  }
}
