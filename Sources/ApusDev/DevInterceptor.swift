import ApusLoop
import ApusModel
import ApusServer
import Synchronization

/// The interceptor of the development service: sees requests and applies faults.
final class DevInterceptor: Interceptor, LedgerWatcher {
  let isLenient: Bool
  let clock = ServiceClock()
  private let recorder: PushRecorder
  private let book: DeviceBook
  private let faults: FaultInjector

  /// Values that exist only once the service runs.
  struct Late: Sendable {
    var devices: VirtualDevices
    var reload: @Sendable () -> Void
    /// Runs everything that is due by the changed clock.
    var clockChanged: @Sendable () -> Void
  }

  private let late = Mutex<Late?>(nil)

  init(isLenient: Bool, recorder: PushRecorder, book: DeviceBook, faults: FaultInjector) {
    self.isLenient = isLenient
    self.recorder = recorder
    self.book = book
    self.faults = faults
  }

  func set(_ late: Late?) { self.late.withLock { $0 = late } }

  var opening: ConnectionOpening { faults.opening }

  func clockChanged() { late.withLock { $0 }?.clockChanged() }

  func fault(for request: ProviderRequest) -> PlannedFault? {
    guard let (rule, effect) = faults.decide(facts(request)) else { return nil }
    recorder.enqueue(.event(.fault))
    switch effect {
    case .request(let effect): return PlannedFault(rule: rule, effect: effect)
    case .opening: return nil
    case .deviceOffline: return PlannedFault(rule: rule, effect: .preparation)
    }
  }

  private func facts(_ request: ProviderRequest) -> MatchFacts {
    let owner = book.owner(of: request.token)
    let language = owner?.language ?? DeviceBook.defaultLanguage
    let preview = Rendering(
      payload: request.payload, language: language,
      strings: book.strings(of: request.topic ?? "", language))
    return MatchFacts(request, device: owner?.device, preview: preview)
  }

  /// Takes the push's device offline, and waits until the service knows.
  func prepare(_ request: ProviderRequest, _ done: @escaping @Sendable () -> Void) {
    guard let id = book.owner(of: request.token)?.device,
      let devices = late.withLock({ $0?.devices })
    else { return done() }
    devices.loop.perform { [recorder] in
      guard let device = devices.device(id) else { return done() }
      var change = DeviceChange()
      change.online = false
      do throws(DevProblem) {
        try devices.change(device, change) {
          recorder.enqueue(.event(.device(id)))
          done()
        }
      } catch {
        done()
      }
    }
  }

  func adopt(
    _ token: String, topic: String, environment: Environment,
    _ done: @escaping @Sendable (DeviceToken?) -> Void
  ) {
    let adoption = DeviceBook.Adoption(token: token, topic: topic, environment: environment)
    if let known = book.adopted(adoption) { return done(known) }
    guard let late = late.withLock({ $0 }) else { return done(nil) }
    late.devices.loop.perform { [recorder] in
      let before = late.devices.all.count
      late.devices.adopt(token, topic: topic, environment: environment, reload: late.reload, done)
      guard late.devices.all.count > before, let device = late.devices.all.last else { return }
      recorder.enqueue(.event(.device(device.id)))
    }
  }

  func adopt(app bundle: String, _ done: @escaping @Sendable (Bool) -> Void) {
    guard let late = late.withLock({ $0 }) else { return done(false) }
    late.devices.loop.perform {
      done((try? late.devices.addApp(bundle, reload: late.reload)) != nil)
    }
  }

  func answered(_ exchange: ProviderExchange) { recorder.enqueue(.answered(exchange)) }

  func connectionClosed(_ connection: InterceptedConnection) {
    recorder.enqueue(.closed(connection, milliseconds: clock.nowMilliseconds))
  }

  func noted(_ events: [LedgerEvent], milliseconds: Int64) {
    recorder.enqueue(.ledger(events, milliseconds: milliseconds))
  }
}
