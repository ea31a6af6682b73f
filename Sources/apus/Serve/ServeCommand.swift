import ApusAdmin
import ApusCommand
import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusLoop
import ApusModel
import ApusRelay
import ApusServer
import ApusWire

/// `apus serve`
struct ServeCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let inherited = try InheritedListeners()
    var openings = try Opening.all(invocation)
    var configuration = try configuration(openings)
    try inherited.assign(&configuration, &openings)
    // Each device needs one descriptor.
    Process.raiseDescriptorLimit()
    // Before any thread starts: threads inherit the mask.
    Service.blockSignals()
    let node = try node(configuration)
    guard let service = try service(configuration, node) else { return announceEnd() }
    try service.startListening()
    warnOfLegacyTLS(service)
    announce(service, openings)
    node?.serves(service)
    service.runUntilSignal(ServiceManager(Process.environment))
    try node?.stepDown()
    announceEnd()
  }

  /// Nil for a service of its own.
  private func node(_ configuration: ServerConfiguration) throws(CommandFailure) -> NodeService? {
    let directory = DataDirectory(path: configuration.dataDirectory)
    let member: ClusterMember?
    do { member = try directory.clusterMember() } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    guard let member, !configuration.isEphemeral else { return nil }
    guard configuration.inheritedSockets.isEmpty else {
      throw CommandFailure(
        .configuration, "a node of a cluster cannot use sockets that systemd opened",
        remedy: "They would accept connections while the node stands by: disable apus.socket.")
    }
    return NodeService(
      directory, member, try NodeLinks(invocation, member), log: configuration.log,
      isAnnounced: invocation.isOn(ApusOptions.json))
  }

  /// Nil if a node was stopped while it stood by.
  private func service(
    _ configuration: ServerConfiguration, _ node: NodeService?
  ) throws(CommandFailure) -> Service? {
    if let node { return try node.standBy(configuration) }
    do { return try Service(configuration) } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  private func announceEnd() {
    if invocation.isOn(ApusOptions.json) { Output.json(.members(["event": .string("stopped")])) }
  }

  // MARK: Configuration

  private func configuration(
    _ openings: [Opening]
  ) throws(CommandFailure) -> ServerConfiguration {
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    do {
      try directory.requireProvisioned()
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    guard !openings.isEmpty else {
      throw CommandFailure(
        .usage, "every listener is off", remedy: "Give at least one of them an address.")
    }
    var configuration = ServerConfiguration(
      dataDirectory: directory.path, listeners: openings.map(\.configuration))
    configuration.workers = invocation.value(ApusOptions.workers)
    configuration.allowsInBandCertificates = !invocation.isOn(ApusOptions.noInBandCertificates)
    configuration.allowsCompactTLS = invocation.value(ApusOptions.compactTLS)
    configuration.allowsES512 = invocation.isOn(ApusOptions.allowES512)
    configuration.unregisterGraceSeconds = Int64(invocation.value(ApusOptions.unregisterGrace))
    configuration.lingerMilliseconds = UInt64(invocation.value(ApusOptions.linger))
    configuration.requestsPerTokenPerSecond = invocation.value(ApusOptions.tokenRate)
    configuration.requestsPerToken = invocation.value(ApusOptions.tokenBurst)
    configuration.shutdownSeconds = invocation.value(ApusOptions.shutdown)
    configuration.ledger = invocation.value(ApusOptions.ledger)
    configuration.ledgerDays = invocation.value(ApusOptions.ledgerDays)
    configuration.ledgerMegabytes = invocation.value(ApusOptions.ledgerMegabytes)
    configuration.deviceCacheMegabytes = invocation.value(ApusOptions.deviceCacheMegabytes)
    configuration.memoryMegabytes = invocation.value(ApusOptions.memoryMegabytes)
    configuration.storeCacheMegabytes = invocation.value(ApusOptions.storeCacheMegabytes)
    configuration.webhookMegabytes = invocation.value(ApusOptions.webhookMegabytes)
    configuration.enrolment =
      switch invocation.value(EnrolmentOptions.enrolment) {
      case .all: .all
      case .codes: .codes
      case .off: .off
      }
    configuration.deviceDays = invocation.value(EnrolmentOptions.deviceDays)
    if let store = invocation[StoreOptions.store] {
      do throws(DirectoryProblem) { configuration.store = try StorePlace(store) } catch {
        throw CommandFailure(.usage, "--store: \(error)")
      }
    }
    configuration.allowsSingleDatabase = invocation.isOn(StoreOptions.singleDatabase)
    configuration.isEphemeral = invocation.isOn(ApusOptions.ephemeral)
    configuration.advertisedHost = try advertisedHost()
    configuration.log = Log(invocation)
    configuration.relay = Relay(
      SpoolLimits(
        byteCount: invocation.value(ApusOptions.relayMegabytes) << 20,
        ageSeconds: Int64(invocation.value(ApusOptions.relayHours)) * 3600),
      log: configuration.log)
    configuration.admin = try AdminServing(invocation).configuration()
    return configuration
  }

  private func advertisedHost() throws(CommandFailure) -> String? {
    guard let text = invocation[ClusterOptions.advertise] else { return nil }
    let isAddress = text.utf8.allSatisfy { $0 == 0x3a || $0 == 0x2e || hexValue($0) != nil }
    let host = isAddress ? HostPort("[\(text)]:1")?.host : nil
    guard let host = host ?? HostPort("\(text):1")?.host else {
      throw invocation.failure(
        about: ClusterOptions.advertise, "\"\(text)\" is not a host",
        remedy: "Give a name or an address without a port: devices use that of --courier-listen.")
    }
    return host
  }

  // MARK: Output

  private func announce(_ service: Service, _ openings: [Opening]) {
    // The service opens its listeners in the order of the configuration.
    let opened = zip(openings, service.listeners).map { opening, listener in
      (name: opening.listener.name, modifiers: opening.modifiers, addresses: listener.addresses)
    }
    if invocation.isOn(ApusOptions.json) {
      var members = [JSONObject.Member(key: "event", value: .string("ready"))]
      for listener in NamedListener.all {
        let addresses = opened.filter { $0.name == listener.name }.flatMap(\.addresses)
        members.append(.init(key: listener.name, value: .strings(addresses.map(\.description))))
      }
      members.append(.init(key: "admin", value: .strings(AdminServing.endpoints(service))))
      members.append(.init(key: "console", value: .strings(service.consoleURLs)))
      if service.configuration.node != nil {
        let part = Int64(service.configuration.share.part ?? 0)
        members.append(.init(key: "part", value: .integer(part)))
      }
      return Output.json(.object(JSONObject(members)))
    }
    var rows = NamedListener.all.map { listener in
      let addresses = opened.filter { $0.name == listener.name }.flatMap { opened in
        opened.addresses.map { "\($0)\(ListenModifier.text(opened.modifiers))" }
      }
      return (listener.title, addresses.isEmpty ? "off" : addresses.joined(separator: "  "))
    }
    let endpoints = AdminServing.endpoints(service)
    rows.append(("administration", endpoints.isEmpty ? "off" : endpoints.joined(separator: "  ")))
    if !service.consoleURLs.isEmpty {
      rows.append(("console", service.consoleURLs.joined(separator: "  ")))
    }
    Output.standard(
      "Apus serves \(service.configuration.dataDirectory). Ctrl-C stops it.\n\(table(rows))")
  }

  /// Logs a warning, so that such a listener is not left open unknowingly.
  private func warnOfLegacyTLS(_ service: Service) {
    for (configured, listener) in zip(service.configuration.listeners, service.listeners)
    where configured.allowsLegacyTLS {
      for address in listener.addresses {
        service.configuration.log(
          .warning, "a listener accepts TLS 1.0 and 1.1, which are broken",
          .text("listener", listener.kind.rawValue), .text("address", address.description))
      }
    }
  }
}

extension Service {
  /// Starts; errors name the options that help.
  func startListening() throws(CommandFailure) {
    do {
      try start()
    } catch let error as SocketError {
      throw CommandFailure(
        .unavailable, "\(error)",
        remedy: "Does another process use the port? `apus serve --help` shows how to choose one.")
    } catch let error as AdminServerError {
      throw CommandFailure(
        .unavailable, "\(error)",
        remedy: "--admin, --admin-listen and --console set the administration listeners.")
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }
}

extension Log {
  /// The log configured by the options.
  init(_ invocation: Invocation) {
    let level: Level =
      switch invocation.value(ApusOptions.logLevel) {
      case .debug: .debug
      case .info: .info
      case .notice: .notice
      case .warning: .warning
      case .error: .error
      }
    let format: Format = invocation.value(ApusOptions.logFormat) == .json ? .json : .text
    self.init(minimumLevel: level, format: format)
    hasPriorities = Self.isJournal(Process.environment)
  }
}
