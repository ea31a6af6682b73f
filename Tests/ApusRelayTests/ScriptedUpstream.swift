import ApusLoop
import ApusModel
import ApusServer
import Synchronization

/// Decides how an upstream service answers, by device token, and records the requests that it gets.
final class ScriptedUpstream: Interceptor {
  let isLenient = false
  let clock = ServiceClock()
  private let state = Mutex(State())

  private struct State {
    var effects: [String: [PlannedFault.Effect]] = [:]
    var requests: [ProviderRequest] = []
  }

  func fault(for request: ProviderRequest) -> PlannedFault? {
    state.withLock { state in
      state.requests.append(request)
      guard let effects = state.effects[request.token], let effect = effects.first else {
        return nil
      }
      if effects.count > 1 { state.effects[request.token]?.removeFirst() }
      return PlannedFault(rule: "scripted", effect: effect)
    }
  }

  func adopt(
    _ token: String, topic: String, environment: Environment,
    _ done: @escaping @Sendable (DeviceToken?) -> Void
  ) { done(nil) }

  func adopt(app bundle: String, _ done: @escaping @Sendable (Bool) -> Void) { done(false) }

  func answered(_ exchange: ProviderExchange) {}

  // MARK: The test's side

  /// From now on requests to the token are answered so, each with one effect; the last is for all others.
  func answer(_ token: String, _ effects: PlannedFault.Effect...) {
    state.withLock { $0.effects[token] = effects }
  }

  func requests(_ token: String) -> [ProviderRequest] {
    state.withLock { $0.requests.filter { $0.token == token } }
  }
}
