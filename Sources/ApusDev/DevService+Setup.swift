import ApusThread
import ApusAdmin
import ApusDirectory
import ApusEnrolment
import ApusLoop
import ApusModel
import ApusServer
import ApusWeb
import ApusWire

extension DevService {
  // MARK: The service

  static func serverConfiguration(
    _ configuration: DevConfiguration, _ directory: DevDirectory, _ interceptor: DevInterceptor
  ) -> ServerConfiguration {
    let ports = configuration.ports
    let listeners: [(ListenerKind, Environment, UInt16)] = [
      (.provider, .production, ports.http2), (.provider, .development, ports.http2Development),
      (.channels, .production, ports.channels),
      (.channels, .development, ports.channelsDevelopment),
      (.courier, .production, ports.courier),
      (.courier, .development, ports.courierDevelopment),
      (.gateway, .production, ports.gateway), (.gateway, .development, ports.gatewayDevelopment),
      (.feedback, .production, ports.feedback),
      (.feedback, .development, ports.feedbackDevelopment),
    ]
    var server = ServerConfiguration(
      dataDirectory: directory.data.path,
      listeners: listeners.map { kind, environment, port in
        ListenerConfiguration(
          kind: kind, environment: environment, addresses: addresses(port, configuration.listen),
          allowsLegacyTLS: configuration.allowsLegacyTLS && (kind == .gateway || kind == .feedback))
      })
    server.isEphemeral = true
    // One worker is enough for a development machine, and gives one order of events.
    server.workers = 1
    server.allowsES512 = configuration.isLenient
    // A test that removes an app must not have to wait for the 410.
    server.unregisterGraceSeconds = 0
    server.shutdownSeconds = 2
    server.enrolment = .off
    server.log = configuration.log
    server.relay = configuration.relay
    server.interceptor = interceptor
    server.ledgerWatcher = interceptor
    return server
  }

  /// Some clients resolve `localhost` to `::1` first. A free port is for IPv4 only, because it cannot be reserved for
  /// both at once.
  private static func addresses(_ port: UInt16, _ listen: SocketAddress?) -> [SocketAddress] {
    if let listen { return [listen.with(port: port)] }
    let hasIPv6 = !((try? Files.read("/proc/net/if_inet6")) ?? []).isEmpty
    guard port != 0, hasIPv6 else { return [.loopbackIPv4(port: port)] }
    return [.loopbackIPv4(port: port), .loopbackIPv6(port: port)]
  }

  static func courierListeners(_ listeners: [OpenListener]) -> [Environment: SocketAddress] {
    let couriers = listeners.filter { $0.kind == .courier }
    return Dictionary(
      uniqueKeysWithValues: couriers.map { ($0.environment, $0.addresses[0].onThisMachine) })
  }

  static func ports(
    _ listeners: [OpenListener], _ kind: ListenerKind
  ) -> [Environment: UInt16] {
    let found = listeners.filter { $0.kind == kind }
    return Dictionary(uniqueKeysWithValues: found.map { ($0.environment, $0.addresses[0].port) })
  }

  static func facts(
    _ configuration: DevConfiguration, _ directory: DevDirectory, _ listeners: [OpenListener]
  ) -> DevFacts {
    DevFacts(
      version: configuration.version, isLenient: configuration.isLenient,
      topics: directory.topics, team: directory.team, keyID: directory.keyID,
      keyFile: directory.keyFile, authorityFile: directory.data.clientAuthorityFile,
      certificateFile: directory.certificateFile, dataDirectory: directory.data.path,
      isThrowAway: directory.isThrowAway,
      host: configuration.names.first ?? configuration.localHost,
      listeners: listeners.map {
        .init(kind: $0.kind, environment: $0.environment, port: $0.addresses[0].port)
      }, consoleAddress: .loopbackIPv4(port: 0), password: configuration.password,
      keep: configuration.keep, keepBytes: configuration.keepMegabytes << 20,
      startedMilliseconds: EventLoop.wallClockMilliseconds(), readyMilliseconds: 0)
  }

  // MARK: The devices

  /// Makes the initial devices, and waits until they have their tokens.
  static func addDevices(_ ids: [String], _ context: DevContext) throws {
    let folder = "\(context.facts.dataDirectory)/dev"
    let kept = try Files.names(in: folder).filter { $0.hasSuffix(".pem") }
    let all = ids + kept.map { String($0.dropLast(4)) }.filter { !ids.contains($0) }.sorted()
    let problem: String? = try context.ask { devices, done in
      do {
        for id in all {
          _ = try devices.add(
            id: id, name: id.prefix(1).uppercased() + id.dropFirst(),
            language: DeviceBook.defaultLanguage)
        }
      } catch {
        return done("\(error)")
      }
      let links = devices.all.flatMap(\.links.values)
      devices.each(links.map { link in { link.settle($0) } }) { done(nil) }
    }
    if let problem { throw DevProblem(.failed, problem) }
  }
}

extension DevContext {
  /// An event's data; nil if its object no longer exists. On the devices' loop.
  ///
  /// - Parameter isBrief: Only what a list shows of a push, and only the id of a device.
  func data(of event: DevEvent, isBrief: Bool) -> [UInt8]? {
    var writer = JSONWriter()
    switch event {
    case .push(let number), .update(let number):
      guard let push = recorder.state.withLock({ $0.inbox[number] }) else { return nil }
      if isBrief { push.writeBrief(to: &writer) } else { write(push, to: &writer) }
    case .device(let id):
      guard let device = devices.device(id), !isBrief else {
        writer.beginObject()
        writer.text("id", id)
        writer.key("removed")
        writer.bool(devices.device(id) == nil)
        writer.endObject()
        break
      }
      device.write(to: &writer)
    case .fault:
      writer.beginObject()
      writer.key("faults")
      writer.beginArray()
      for rule in faults.rules { rule.write(to: &writer) }
      writer.endArray()
      writer.endObject()
    case .clock:
      writer.beginObject()
      writer.integer("now", clock.nowMilliseconds)
      writer.integer("offsetMilliseconds", clock.offsetMilliseconds)
      writer.endObject()
    case .cleared:
      writer.beginObject()
      writer.endObject()
    }
    return writer.bytes
  }
}
