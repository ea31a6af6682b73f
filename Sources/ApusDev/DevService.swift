import ApusThread
import ApusDirectory
import ApusLoop
package import ApusModel
import ApusServer
import ApusWeb
import Glibc
import Synchronization

/// The development service: the real service in memory, with virtual devices, that reports everything about each push
/// and can inject faults.
///
/// Call `init` and `stop` from the same thread, which must not be one of its own.
package final class DevService {
  package let facts: DevFacts
  private let directory: DevDirectory
  private let service: Service
  private let web: WebServer
  private let loop: EventLoop
  private let context: DevContext
  private let interceptor: DevInterceptor

  /// Starts the service. Throws an error with a message for the user if it cannot start.
  package init(_ configuration: DevConfiguration) throws {
    let started = configuration.startedMonotonicMilliseconds ?? monotonicMilliseconds()
    let book = DeviceBook()
    let faults = FaultInjector()
    if let file = configuration.faults {
      do throws(InputFault) {
        try faults.add(file: file.text)
      } catch {
        throw file.problem(error)
      }
    }
    for (topic, language, file) in configuration.strings {
      do throws(InputFault) {
        book.setStrings(try StringsFile.read(file.text), topic: topic, language: language)
      } catch {
        throw file.problem(error)
      }
    }
    let directory = try DevDirectory(configuration)
    self.directory = directory
    let loop = EventLoop(name: "apus-dev")
    self.loop = loop
    // The feed reads from the recorder, so it is made after it.
    let tell = LateCall()
    let recorder = PushRecorder(
      keep: configuration.keep, keepBytes: configuration.keepMegabytes << 20,
      allowedRules: configuration.allowedRules,
      firstEvent: UInt64(EventLoop.wallClockMilliseconds()) * 1000, book: book
    ) {
      loop.perform { tell.call() }
    }
    let interceptor = DevInterceptor(
      isLenient: configuration.isLenient, recorder: recorder, book: book, faults: faults)
    self.interceptor = interceptor
    let service: Service
    do {
      service = try Service(Self.serverConfiguration(configuration, directory, interceptor))
    } catch {
      directory.remove()
      throw error
    }
    self.service = service
    loop.start()
    // A service whose listeners did not all open has no workers to stop.
    var hasStarted = false
    do {
      try service.start()
      hasStarted = true
      let listeners = service.listeners
      let devices = try VirtualDevices(
        loop: loop, book: book,
        settings: .init(
          data: directory.data, listeners: Self.courierListeners(listeners), team: directory.team,
          keepsIdentities: !directory.isThrowAway, clock: interceptor.clock), apps: directory.topics
      ) { recorder.enqueue($0) }
      let composer = Composer(
        .init(
          host: configuration.localHost, ports: Self.ports(listeners, .provider),
          authorityPEM: try Files.read(directory.data.clientAuthorityFile),
          keyFile: directory.keyFile, keyID: directory.keyID, team: directory.team,
          clock: interceptor.clock))
      let late = LateContext()
      let feed = EventFeed(loop: loop, recorder: recorder) {
        late.context?.data(of: $0, isBrief: $1)
      }
      tell.set {
        recorder.drain()
        feed.feed()
      }
      let reload = ReloadCall(service)
      interceptor.set(
        .init(
          devices: devices, reload: { reload.call() },
          clockChanged: {
            reload.clockChanged()
            loop.perform { devices.activities.clockChanged() }
          }))
      var facts = Self.facts(configuration, directory, listeners)
      func context(_ facts: DevFacts) -> DevContext {
        DevContext(
          recorder: recorder, book: book, faults: faults, clock: interceptor.clock,
          clockChanged: { interceptor.clockChanged() }, devices: devices,
          feed: feed, composer: composer, facts: facts, service: service.administered,
          trust: service.currentTrust)
      }
      try Self.addDevices(configuration.devices, context(facts))
      facts.deviceToken =
        try Self.token(
          of: configuration.devices[0], directory.topics[0], .production, context(facts)) ?? ""
      // The port is known only once the server listens, but its responses contain the port.
      let address = (configuration.listen ?? .loopbackIPv4(port: 0)).with(
        port: configuration.ports.console)
      precondition(
        configuration.password != nil || address.isThisMachine, "a console without a password")
      var page = WebServerConfiguration(
        endpoint: .tcp(host: address.hostText, port: address.port))
      page.limits = Self.webLimits
      let handler = LateHandler()
      web = try WebServer(page, handler: handler)
      facts.consoleAddress = address.with(port: web.port ?? address.port)
      facts.readyMilliseconds = monotonicMilliseconds() - started
      self.facts = facts
      self.context = context(facts)
      late.set(self.context)
      handler.set(
        DevAPI(context: self.context, password: configuration.password.map { DevPassword($0) }))
      loop.perform { feed.start() }
    } catch {
      if hasStarted { service.stop() }
      loop.stop()
      loop.join()
      directory.remove()
      throw error
    }
  }

  private static var webLimits: WebLimits {
    var limits = WebLimits()
    limits.connections = 1024
    limits.connectionsPerAddress = 1024
    limits.idleSeconds = 120
    limits.requestSeconds = 30
    limits.bodyBytes = 1 << 20
    // Each request may wait for pushes.
    limits.threads = 32
    return limits
  }

  /// Number of violations with this severity or higher, for the exit code.
  package func violations(atLeast severity: LintRule.Severity) -> Int {
    context.recorder.read { $0.report.count(atLeast: severity) }
  }

  package func violations(exactly severity: LintRule.Severity) -> Int {
    context.recorder.read { $0.report.count(severity) }
  }

  package func junit() -> String { context.recorder.read { $0.report }.junit() }

  /// The token of a device for a topic; nil if there is none yet.
  package func token(_ device: String, topic: String, _ environment: Environment) -> String? {
    try? Self.token(of: device, topic, environment, context)
  }

  private static func token(
    of device: String, _ topic: String, _ environment: Environment, _ context: DevContext
  ) throws(DevProblem) -> String? {
    try context.ask { devices, done in
      done(devices.device(device)?.links[environment]?.tokens[topic]?.hex)
    }
  }

  /// Stops the service. Returns when all threads have ended and temporary files are deleted.
  package func stop() {
    context.recorder.stop()
    context.composer.stop()
    let gone = Monitor<Void?>(nil)
    loop.perform { [context] in
      context.feed.stop()
      context.devices.stop { gone.notify { $0 = () } }
    }
    _ = gone.take(withinMilliseconds: 2000)
    web.stop()
    interceptor.set(nil)
    service.stop()
    loop.stop()
    loop.join()
    directory.remove()
  }

  /// Waits for SIGTERM or SIGINT, which `Service.blockSignals()` must have blocked before.
  package static func waitForSignal() {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for signal in [SIGTERM, SIGINT] { unsafe sigaddset(&set, signal) }
    var signal: Int32 = 0
    while unsafe sigwait(&set, &signal) != 0 {}
  }
}

// MARK: Late bindings

/// A function that is set later; calls before that do nothing.
private final class LateCall: Sendable {
  private let body = Mutex<(@Sendable () -> Void)?>(nil)
  func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
  func call() { body.withLock { $0 }?() }
}

private final class LateContext: Sendable {
  private let state = Mutex<DevContext?>(nil)
  func set(_ context: DevContext) { state.withLock { $0 = context } }
  var context: DevContext? { state.withLock { $0 } }
}

/// Reloads from the loop of the devices, which ends before the service.
private final class ReloadCall: @unchecked Sendable {
  private weak var service: Service?
  init(_ service: Service) { self.service = service }
  func call() { service?.reload() }
  func clockChanged() { service?.clockChanged() }
}

private final class LateHandler: WebHandler {
  private let state = Mutex<DevAPI?>(nil)
  func set(_ api: DevAPI) { state.withLock { $0 = api } }
  private var api: DevAPI? { state.withLock { $0 } }

  private static var notYet: WebResponse { WebResponse(503, text: "starting\n") }

  func screen(_ head: inout WebRequest) -> WebResponse? {
    guard let api else { return Self.notYet }
    return api.screen(&head)
  }

  func answer(_ request: WebRequest) -> WebResponse { api?.answer(request) ?? Self.notYet }

  func malformed(_ problem: String) -> WebResponse { api?.malformed(problem) ?? Self.notYet }

  func tooLarge(limitBytes: Int) -> WebResponse {
    api?.tooLarge(limitBytes: limitBytes) ?? Self.notYet
  }
}
