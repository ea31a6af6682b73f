import ApusLog
import ApusDirectory
import ApusLoop
import ApusThread

/// Sends the events of one webhook, on a thread of its own.
struct WebhookSender {
  private let service: WebhookService
  /// In the service's table.
  private let number: Int

  init(_ service: WebhookService, _ number: Int) {
    self.service = service
    self.number = number
  }

  private enum Step {
    case send(WebhookRequest)
    case fault(String)
    case end
  }

  func run() {
    while true {
      switch next() {
      case .end: return
      case .fault(let reason): failed(reason)
      case .send(let request): send(request)
      }
    }
  }

  /// Waits for something to do.
  private func next() -> Step {
    service.state.wait { state in
      guard let hook = state.hooks[number], !state.isStopping else { return .found(.end) }
      switch hook.delivery.action(
        next: state.queue?.next ?? 1, nowMilliseconds: monotonicMilliseconds())
      {
      case .idle: return .wait(untilMilliseconds: nil)
      case .wait(let milliseconds): return .wait(untilMilliseconds: milliseconds)
      case .send(let position): return .found(step(hook.webhook, position, &state))
      }
    }
  }

  private func step(
    _ webhook: Webhook, _ position: UInt64, _ state: inout WebhookService.State
  ) -> Step {
    do {
      guard
        let page = try state.queue?.page(
          from: position, limit: WebhookRequest.eventLimit, limitBytes: WebhookRequest.byteLimit)
      else { return .fault("there is no queue") }
      state.hooks[number]?.isSending = true
      return .send(
        WebhookRequest(
          webhook, page, position: position, nowMilliseconds: EventLoop.wallClockMilliseconds()))
    } catch {
      return .fault("the queue cannot be read: \(error)")
    }
  }

  private func send(_ request: WebhookRequest) {
    if !request.events.isEmpty,
      let reason = request.send(nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    {
      return failed(reason)
    }
    let oldest = service.state.notify { state -> UInt64? in
      state.hooks[number]?.isSending = false
      state.hooks[number]?.delivery.succeeded(before: request.end)
      state.hooks[number]?.facts.delivered += UInt64(request.events.count)
      return state.hooks.values.map(\.delivery.position).min()
    }
    // Events that were left out are not worth a write.
    if !request.events.isEmpty { service.savePosition(of: number) }
    if let oldest {
      service.state.withLock { state in
        try? service.directory.sharing { try state.queue?.remove(before: oldest) }
      }
    }
  }

  private func failed(_ reason: String) {
    let hook = service.state.notify { state -> WebhookService.Hook? in
      state.hooks[number]?.isSending = false
      state.hooks[number]?.facts.failures += 1
      state.hooks[number]?.delivery.failed(
        nowMilliseconds: monotonicMilliseconds(), share: Double.random(in: 0...1))
      return state.hooks[number]
    }
    guard let hook else { return }
    let failures = hook.delivery.failures
    service.savePosition(of: number, error: reason)
    // The first failure, and then one line for each doubling.
    if failures & (failures - 1) == 0 {
      service.log(
        .warning, "webhook not delivered", .text("webhook", hook.webhook.name),
        .text("reason", reason),
        .number("failures", failures))
    }
  }
}
