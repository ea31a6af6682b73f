import ApusAdmin
import ApusCommand
import ApusLoop
import ApusServer

/// Sockets that a service manager opened for `apus serve`, and their listeners.
struct InheritedListeners {
  private let sockets: [InheritedSocket]

  init(_ environment: [String: String] = Process.environment) throws(CommandFailure) {
    do throws(InheritedSocketError) {
      sockets = try InheritedSockets.take(environment)
    } catch {
      throw Self.failure(error)
    }
  }

  /// Socket units name listeners by their options: `http2-development` is `--http2-development-listen`.
  func assign(
    _ configuration: inout ServerConfiguration, _ openings: inout [Opening]
  ) throws(CommandFailure) {
    guard !sockets.isEmpty else { return }
    var plans = openings.map { opening in
      ListenerPlan(
        name: opening.listener.socketName, addresses: opening.configuration.addresses)
    }
    if let admin = configuration.admin {
      plans.append(ListenerPlan(name: "admin", addresses: admin.addresses))
      plans.append(ListenerPlan(name: "console", addresses: admin.console))
    }
    do throws(InheritedSocketError) {
      plans = try ListenerPlan.assign(sockets, to: plans)
    } catch {
      throw Self.failure(error)
    }
    if configuration.admin != nil {
      configuration.admin?.console = plans.removeLast().addresses
      configuration.admin?.addresses = plans.removeLast().addresses
    }
    for index in openings.indices {
      openings[index].configuration.addresses = plans[index].addresses
    }
    configuration.listeners = openings.map(\.configuration)
    for socket in sockets {
      configuration.inheritedSockets[socket.address] = socket.descriptor
    }
  }

  private static func failure(_ error: InheritedSocketError) -> CommandFailure {
    CommandFailure(
      .usage, "\(error)",
      remedy: "Documentation/restarts.md describes socket units for Apus.")
  }
}

extension NamedListener {
  /// The name in a socket unit: the option without `--` and `-listen`.
  var socketName: String {
    String(option.description.flag.dropFirst(2).dropLast("-listen".count))
  }
}
