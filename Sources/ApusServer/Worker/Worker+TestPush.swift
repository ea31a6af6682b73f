import ApusAdmin
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust

/// Test pushes that a worker has not decided about yet, by their numbers.
struct TestPushTable {
  typealias Answering = (Rejection?) -> Void

  private var open: [UInt32: Answering] = [:]
  private var next: UInt32 = 0

  mutating func open(_ answer: @escaping Answering) -> UInt32 {
    next &+= 1
    open[next] = answer
    return next
  }

  /// Removes it; nil if nothing waits for the answer.
  mutating func close(_ number: UInt32) -> Answering? { open.removeValue(forKey: number) }
}

extension Worker {
  /// Decides about a test push as about a provider's request, on this worker's thread.
  ///
  /// - Parameter done: Called once, unless the store never reports an outcome.
  func send(_ push: TestPush, _ done: @escaping @Sendable (TestPushOutcome) -> Void) {
    do throws(Refusal) {
      try judge(push, done)
    } catch {
      refuse(push, error, done)
    }
  }

  private func judge(
    _ push: TestPush, _ done: @escaping @Sendable (TestPushOutcome) -> Void
  ) throws(Refusal) {
    let directory = context.trust.directory
    let (fields, payload) = (push.fields, push.payload)
    let sender = ProviderConnection(environment: push.environment)
    try Admission.examineHead(fields, headerListTooLarge: false)
    let head = try Admission.examine(
      fields, connection: sender, directory: directory, bodyByteCount: payload.count,
      body: payload.span)
    // As with a key of the team that has the topic. Where no app has it, it is refused before a team counts.
    guard let team = head.topic?.team ?? ShortID("NOBODYHERE") else {
      throw Refusal(.topicUnknown)
    }
    let claims = try Admission.admit(
      head, claims: context.sealer.open(head.token), grant: Grant(team: team, scope: .team),
      connection: sender, directory: directory)
    let notification = devices.takeNotification()
    if head.messageID == nil { notification.id = context.ids.next() }
    Admission.fill(
      notification, from: head, claims: claims, interface: .http2,
      collapseID: fields.value(.apnsCollapseID), payload: payload.span,
      nowMilliseconds: context.wallMilliseconds)
    notification.uniqueID = context.ids.next()
    let (id, uniqueID) = (notification.id, notification.uniqueID)
    let number = testPushes.open { [unowned self] rejection in
      guard let rejection else { return done(TestPushOutcome(id: id, uniqueID: uniqueID)) }
      devices.noteRejection(rejection.reason)
      done(
        TestPushOutcome(
          id: id, rejection: rejection, explanation: explanation(rejection, fields)))
    }
    let answer = Answer(worker: UInt16(context.index), testPush: number)
    guard let verdict = router.route(notification, answer) else { return }
    devices.gatherLedger()
    finish(verdict)
  }

  private func refuse(
    _ push: TestPush, _ refusal: Refusal, _ done: (TestPushOutcome) -> Void
  ) {
    devices.noteRejection(refusal.reason)
    var id = context.ids.next()
    if case .given(let given) = Admission.messageID(of: push.fields) { id = given }
    done(
      TestPushOutcome(
        id: id, rejection: refusal.rejection,
        explanation: refusal.explanation.text(
          fields: push.fields, directory: context.trust.directory)))
  }

  /// What the shard refused, in words.
  private func explanation(_ rejection: Rejection, _ fields: RequestFields) -> String {
    let explanation: Explanation
    switch rejection.reason {
    case .unregistered:
      explanation = .inactiveToken(sinceMilliseconds: rejection.timestampMilliseconds ?? 0)
    case .tooManyRequests: explanation = .tooManyToDevice
    case .deviceTokenNotForTopic: return "the device has no app with this topic"
    default: return "the service could not store the notification: its store accepts no writes"
    }
    return explanation.text(fields: fields, directory: context.trust.directory)
  }
}
