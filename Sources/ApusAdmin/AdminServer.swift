import ApusCore
package import ApusDirectory
package import ApusJobs
package import ApusLog
package import ApusLoop
package import ApusStore
import ApusTLS
import ApusWeb
import Synchronization

/// Serves the administration API: on a UNIX socket in the data directory, and over TLS for callers with a token.
package final class AdminServer: Sendable {
  private struct State {
    var servers: [WebServer] = []
    var secureServers: [WebServer] = []
    var addresses: [SocketAddress] = []
    /// URLs of the console.
    var consoles: [String] = []
    var clock: HistoryClock?
    var socket: String?
  }

  private let configuration: AdminConfiguration
  private let log: Log
  private let directory: DataDirectory
  private let certificates: ServerCertificates
  /// Descriptors of listening sockets inherited from a service manager, by address.
  private let inherited: [SocketAddress: Int32]
  private let facts: AdminState
  private let state = Mutex(State())

  package init(
    _ configuration: AdminConfiguration, _ directory: DataDirectory, _ trust: Trust,
    _ certificates: ServerCertificates, inherited: [SocketAddress: Int32], log: Log
  ) {
    self.configuration = configuration
    self.inherited = inherited
    self.directory = directory
    self.certificates = certificates
    self.log = log
    facts = AdminState(trust)
  }

  /// Opens all listeners.
  ///
  /// - Parameter identity: Identifies the data directory with which the service started.
  package func start(
    _ service: any AdministeredService, store: any DurableStore, jobs: JobService,
    expiries: ExpiryWatch, audit: AuditLog, labels: LabelRegister, identity: DirectoryIdentity
  ) throws {
    let view = ServiceView(
      settings: configuration, directory: directory, service: service, store: store, jobs: jobs,
      expiries: expiries, certificates: certificates, audit: audit, labels: labels, log: log,
      state: facts, identity: identity)
    let api = AdminAPI(view: view, gate: AdminGate(directory, audit: view.audit, log: log))
    do {
      if configuration.hasSocket {
        try openSocket(api)
      }
      for address in configuration.addresses {
        let bound = try listen(on: address, isSecure: true, api)
        state.withLock { $0.addresses.append(bound) }
      }
      for address in configuration.console {
        let isSecure = !address.isThisMachine
        var own = api
        own.isForLoopback = !isSecure
        let bound = try listen(on: address, isSecure: isSecure, own)
        state.withLock { $0.consoles.append("http\(isSecure ? "s" : "")://\(bound)/") }
      }
      let clock = HistoryClock { view.history.add(view.totals()) }
      state.withLock { $0.clock = clock }
    } catch {
      stop()
      throw AdminServerError(description: "\(error)")
    }
  }

  private func openSocket(_ api: AdminAPI) throws(WebError) {
    let path = directory.adminSocket
    do throws(WebError) {
      let server = try WebServer(.init(endpoint: .unix(path: path)), handler: api)
      state.withLock { state in
        state.servers.append(server)
        state.socket = path
      }
      log(.notice, "listening", .text("listener", "admin"), .text("address", path))
    } catch {
      // The path was not chosen by the operator, and the service can run without this socket.
      let isPathTooLong = if case .pathTooLong = error { true } else { false }
      guard isPathTooLong || error.isOfDisk else { throw error }
      log(.warning, "administration socket not opened", .text("reason", "\(error)"))
    }
  }

  private func listen(
    on address: SocketAddress, isSecure: Bool, _ api: AdminAPI
  ) throws -> SocketAddress {
    var server = WebServerConfiguration(
      endpoint: inherited[address].map { .inherited(descriptor: $0, port: address.port) }
        ?? .tcp(host: address.hostText, port: address.port))
    if isSecure { server.identity = try identity() }
    let opened = try WebServer(server, handler: api)
    let bound = address.with(port: opened.port ?? address.port)
    state.withLock { state in
      if isSecure { state.secureServers.append(opened) } else { state.servers.append(opened) }
    }
    log(.notice, "listening", .text("listener", "admin"), .text("address", bound.description))
    return bound
  }

  package var socket: String? { state.withLock { $0.socket } }

  /// The addresses with TLS.
  package var addresses: [SocketAddress] { state.withLock { $0.addresses } }

  /// The URLs of the console, besides ``addresses``.
  package var consoles: [String] { state.withLock { $0.consoles } }

  /// Call it when the trust data has changed, and possibly the service's certificate.
  package func trustReplaced(_ trust: Trust) {
    facts.trust = trust
    presentCertificate()
  }

  /// Call it when the certificate of the addresses with TLS may have changed.
  package func presentCertificate() {
    let servers = state.withLock { $0.secureServers }
    guard !servers.isEmpty else { return }
    do {
      let identity = try identity()
      for server in servers { try server.replace(identity) }
    } catch {
      log(
        .error, "administration listener keeps its old certificate", .text("reason", "\(error)"))
    }
  }

  private func identity() throws -> WebIdentity {
    let given = configuration.serverCertificate.flatMap(certificates.identity)
    return WebIdentity(try given ?? directory.serverFiles.read())
  }

  /// Reports the service as not ready from now on.
  package func drain() { facts.drain() }

  /// Closes all listeners. Returns when all responses have been sent.
  package func stop() {
    let last = state.withLock { state in
      defer { state = State() }
      return state
    }
    for server in last.servers + last.secureServers { server.stop() }
    last.clock?.stop()
  }
}

/// Why the administration could not be started.
package struct AdminServerError: Error, Sendable, CustomStringConvertible {
  package var description: String
}

extension WebIdentity {
  fileprivate init(_ identity: TLSIdentity) {
    self.init(
      certificatePEM: identity.certificateChainPEM, keyPEM: identity.privateKeyPEM)
  }
}
