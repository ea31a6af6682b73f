import ApusCommand
import ApusLoop
import ApusModel
import ApusServer
import ApusWire

/// `apus serve`
struct ServeCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let configuration = try configuration()
    // Each device holds one.
    Process.raiseDescriptorLimit()
    // Before any thread is started: threads inherit what is blocked.
    Service.blockSignals()
    let service: Service
    do {
      service = try Service(configuration)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    do {
      try service.start()
    } catch let error as SocketError {
      throw CommandFailure(
        .unavailable, "\(error)",
        remedy: "Does another service hold the port? `apus serve --help` tells how to choose one.")
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    announce(service)
    service.runUntilSignal()
    if invocation.isOn(ApusOptions.json) { Output.json(.members(["event": .string("stopped")])) }
  }

  // MARK: Configuration

  private func configuration() throws(CommandFailure) -> ServerConfiguration {
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    do {
      try directory.requireProvisioned()
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    var doors: [DoorConfiguration] = []
    for door in Self.doors {
      let addresses = try addresses(door.option)
      if addresses.isEmpty { continue }
      doors.append(
        DoorConfiguration(kind: door.kind, environment: door.environment, addresses: addresses))
    }
    guard !doors.isEmpty else {
      throw CommandFailure(
        .usage, "every door is off", remedy: "Give at least one of them an address.")
    }
    var configuration = ServerConfiguration(dataDirectory: directory.path, doors: doors)
    configuration.workers = invocation.value(ApusOptions.workers)
    configuration.allowsInBandCertificates = !invocation.isOn(ApusOptions.noInBandCertificates)
    configuration.allowsES512 = invocation.isOn(ApusOptions.allowES512)
    configuration.unregisterGraceSeconds = Int64(invocation.value(ApusOptions.unregisterGrace))
    configuration.lingerMilliseconds = UInt64(invocation.value(ApusOptions.linger))
    configuration.shutdownSeconds = invocation.value(ApusOptions.shutdown)
    configuration.isEphemeral = invocation.isOn(ApusOptions.ephemeral)
    configuration.log = Log(invocation)
    return configuration
  }

  private struct Door {
    var name: String
    var kind: DoorConfiguration.Kind
    var environment: Environment
    var option: Option<ListenAddresses>
  }

  private static let doors = [
    Door(
      name: "http2", kind: .provider, environment: .production, option: ApusOptions.http2Listen),
    Door(
      name: "http2_development", kind: .provider, environment: .development,
      option: ApusOptions.http2DevelopmentListen),
    Door(
      name: "courier", kind: .courier, environment: .production, option: ApusOptions.courierListen
    ),
    Door(
      name: "courier_development", kind: .courier, environment: .development,
      option: ApusOptions.courierDevelopmentListen),
  ]

  private func addresses(
    _ option: Option<ListenAddresses>
  ) throws(CommandFailure) -> [SocketAddress] {
    switch invocation.value(option) {
    case .off: return []
    case .everywhere(let port):
      // A kernel without IPv6 has no [::] to listen on.
      let hasIPv6 = !((try? Files.read("/proc/net/if_inet6")) ?? []).isEmpty
      return [.anyIPv4(port: port)] + (hasIPv6 ? [.anyIPv6(port: port)] : [])
    case .addresses(let list):
      var addresses: [SocketAddress] = []
      for entry in list {
        do throws(SocketError) {
          addresses.append(try SocketAddress(entry.description))
        } catch {
          throw invocation.failure(about: option, "\(error)")
        }
      }
      return addresses
    }
  }

  // MARK: What is said

  private func announce(_ service: Service) {
    let addresses = Self.doors.map { door in
      service.doors.filter { $0.kind == door.kind && $0.environment == door.environment }
        .flatMap(\.addresses).map(\.description)
    }
    if invocation.isOn(ApusOptions.json) {
      var members = [JSONObject.Member(key: "event", value: .string("ready"))]
      for (door, bound) in zip(Self.doors, addresses) {
        members.append(.init(key: door.name, value: .strings(bound)))
      }
      return Output.json(.object(JSONObject(members)))
    }
    func list(_ index: Int) -> String {
      addresses[index].isEmpty ? "off" : addresses[index].joined(separator: "  ")
    }
    let doors = table([
      "providers, production": list(0), "providers, development": list(1),
      "devices, production": list(2), "devices, development": list(3),
    ])
    Output.standard(
      "Apus serves \(service.configuration.dataDirectory). Ctrl-C stops it.\n\(doors)")
  }
}

extension Log {
  /// The log that the options ask for.
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
  }
}
