import ApusThread
package import ApusWeb
package import ApusWire

/// A server that webhooks send to: keeps what it gets, and answers as it is told.
package final class WebhookReceiver: WebHandler {
  package struct Request: Sendable {
    package var signature: String
    package var body: [UInt8]
    /// The events, in order.
    package var events: [JSONValue] {
      (try? JSONValue(parsing: body.span))?["events"]?.array ?? []
    }
  }

  private struct State {
    var server: WebServer?
    var requests: [Request] = []
    /// Statuses of the next answers; 200 after them.
    var statuses: [Int] = []
    var isHanging = false
  }

  private let state = Monitor(State())

  package init() throws(WebError) {
    var configuration = WebServerConfiguration(endpoint: .tcp(host: "127.0.0.1", port: 0))
    configuration.limits.bodyBytes = 1 << 20
    let server = try WebServer(configuration, handler: self)
    state.withLock { $0.server = server }
  }

  deinit { stop() }

  package func stop() {
    let server = state.notify { state in
      state.isHanging = false
      defer { state.server = nil }
      return state.server
    }
    server?.stop()
  }

  package var url: String {
    "http://127.0.0.1:\(state.withLock { $0.server?.port } ?? 0)/events"
  }

  /// The next answers; after them it accepts everything.
  package func answer(_ statuses: Int...) { state.withLock { $0.statuses = statuses } }

  /// Answers nothing until it is called with false.
  package func hang(_ isHanging: Bool) { state.notify { $0.isHanging = isHanging } }

  package var requests: [Request] { state.withLock { $0.requests } }

  /// Waits until `enough` says so of the requests, ten seconds at most.
  package func wait(_ enough: ([Request]) -> Bool) -> [Request] {
    let deadline = monotonicMilliseconds() + 10_000
    return state.wait { state in
      enough(state.requests) || monotonicMilliseconds() >= deadline
        ? .found(state.requests) : .wait(untilMilliseconds: deadline)
    }
  }

  package func screen(_ head: inout WebRequest) -> WebResponse? { nil }
  package func malformed(_ problem: String) -> WebResponse { WebResponse(400, text: problem) }
  package func tooLarge(limitBytes: Int) -> WebResponse { WebResponse(413, text: "") }

  package func answer(_ request: WebRequest) -> WebResponse {
    let signature = request.values("apus-webhook-signature").first ?? ""
    let status = state.notify { state in
      state.requests.append(Request(signature: signature, body: request.body))
      return state.statuses.isEmpty ? 200 : state.statuses.removeFirst()
    }
    state.wait { $0.isHanging ? .wait(untilMilliseconds: nil) : .found(()) }
    return WebResponse(status, text: "")
  }
}
