import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import ApusWire
import Foundation
import Synchronization
import Testing

/// An interceptor that plans faults by device token, and records what it sees.
final class TestInterceptor: Interceptor {
  let isLenient: Bool
  let clock = ServiceClock()
  private let state = Mutex(State())

  private struct State {
    var opening = ConnectionOpening()
    var faults: [String: [PlannedFault.Effect]] = [:]
    var adopted: [String: DeviceToken] = [:]
    var adopters: [String: @Sendable () -> DeviceToken?] = [:]
    var asked: [(token: String, topic: String, environment: Environment)] = []
    var askedApps: [String] = []
    var exchanges: [ProviderExchange] = []
    var opened: [InterceptedConnection] = []
    var closed: [InterceptedConnection] = []
  }

  init(isLenient: Bool = false) { self.isLenient = isLenient }

  // MARK: The service's side

  var opening: ConnectionOpening { state.withLock { $0.opening } }

  func fault(for request: ProviderRequest) -> PlannedFault? {
    state.withLock { state in
      guard let effect = state.faults[request.token]?.first else { return nil }
      state.faults[request.token]?.removeFirst()
      return PlannedFault(rule: "planned", effect: effect)
    }
  }

  func adopt(
    _ token: String, topic: String, environment: Environment,
    _ done: @escaping @Sendable (DeviceToken?) -> Void
  ) {
    let (device, adopter) = state.withLock { state in
      state.asked.append((token, topic, environment))
      return (state.adopted[token], state.adopters[token])
    }
    guard let adopter else { return done(device) }
    Thread.detachNewThread { done(adopter()) }
  }

  func adopt(app bundle: String, _ done: @escaping @Sendable (Bool) -> Void) {
    state.withLock { $0.askedApps.append(bundle) }
    Thread.detachNewThread { done(false) }
  }

  func answered(_ exchange: ProviderExchange) { state.withLock { $0.exchanges.append(exchange) } }

  func connectionOpened(_ connection: InterceptedConnection) {
    state.withLock { $0.opened.append(connection) }
  }

  func connectionClosed(_ connection: InterceptedConnection) {
    state.withLock { $0.closed.append(connection) }
  }

  // MARK: The test's side

  func open(_ opening: ConnectionOpening) { state.withLock { $0.opening = opening } }

  /// Plans one fault for each of the next requests to a token.
  func plan(_ token: String, _ effects: PlannedFault.Effect...) {
    state.withLock { $0.faults[token] = effects }
  }

  func adopt(_ token: String, as device: DeviceToken?) {
    state.withLock { $0.adopted[token] = device }
  }

  var askedApps: [String] { state.withLock { $0.askedApps } }

  /// Calls `adopter` on its own thread.
  func adopt(_ token: String, by adopter: @escaping @Sendable () -> DeviceToken?) {
    state.withLock { $0.adopters[token] = adopter }
  }

  func asked(_ token: String) -> [String] {
    state.withLock { $0.asked.filter { $0.token == token }.map(\.topic) }
  }

  /// The recorded requests to a token, once there are this many.
  func exchanges(_ token: String, count: Int = 1) throws -> [ProviderExchange] {
    var found: [ProviderExchange] = []
    try waitUntil("\(count) words on requests") {
      found = state.withLock { $0.exchanges.filter { $0.request.token == token } }
      return found.count >= count
    }
    #expect(found.count == count)
    return found
  }

  func exchange(_ token: String) throws -> ProviderExchange { try exchanges(token)[0] }

  func closed(_ number: UInt64) throws -> InterceptedConnection? {
    var found: InterceptedConnection?
    try waitUntil("the end of connection \(number)") {
      found = state.withLock { $0.closed.first { $0.number == number } }
      return found != nil
    }
    return found
  }

  func opened(_ number: UInt64) -> InterceptedConnection? {
    state.withLock { $0.opened.first { $0.number == number } }
  }
}

/// A service with its interceptor.
struct Stage {
  let service: TestService
  let interceptor: TestInterceptor
  /// One for all: a connection may not change its token within 20 minutes.
  let authorization: String

  init(isLenient: Bool = false) throws {
    let interceptor = TestInterceptor(isLenient: isLenient)
    self.interceptor = interceptor
    service = try TestService(nil, .init { $0.interceptor = interceptor })
    authorization = try service.authorization()
  }

  private static let startedStrict = Result { try Stage() }
  private static let startedLenient = Result { try Stage(isLenient: true) }

  static var strict: Stage { get throws { try startedStrict.get() } }
  static var lenient: Stage { get throws { try startedLenient.get() } }

  /// The token of a new offline device.
  func token(_ environment: Environment = .production) throws -> String {
    let token = try service.absentToken(TestDirectory.topic, environment)
    return String(decoding: Hex.encode(token.span), as: UTF8.self)
  }

  func headers(_ token: String) -> [RawHeader] {
    service.pushHeaders(to: token, authorization: authorization)
  }
}
