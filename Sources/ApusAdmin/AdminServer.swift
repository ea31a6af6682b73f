package import ApusCore
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
    /// Answers what other nodes ask; nil unless the service runs.
    var api: AdminAPI?
    /// The threads for that, made when the first request comes.
    var pool: WebPool?
  }

  private let configuration: AdminConfiguration
  private let log: Log
  private let directory: DataDirectory
  private let certificates: ServerCertificates
  /// Descriptors of listening sockets inherited from a service manager, by address.
  private let inherited: [SocketAddress: Int32]
  private let facts: AdminState
  private let state = Mutex(State())

  /// Threads of each listener of an edge. Requests that wait for the node that decides must not keep `/readyz` waiting.
  private static let edgeThreads = 8

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
    expiries: ExpiryWatch, audit: AuditLog, labels: LabelRegister, identity: DirectoryIdentity,
    cluster: ClusterNodes? = nil, decidingNode: (any DecidingNode)? = nil,
    otherParts: OtherParts? = nil
  ) throws {
    let view = ServiceView(
      settings: configuration, directory: directory, service: service, store: store, jobs: jobs,
      expiries: expiries, certificates: certificates, audit: audit, labels: labels, log: log,
      state: facts, identity: identity, cluster: cluster, decidingNode: decidingNode,
      otherParts: otherParts)
    let api = AdminAPI(view: view, gate: AdminGate(directory, audit: view.audit, log: log))
    state.withLock { $0.api = api }
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
      let server = try WebServer(configuration(.unix(path: path), api), handler: api)
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
    var server = configuration(
      inherited[address].map { .inherited(descriptor: $0, port: address.port) }
        ?? .tcp(host: address.hostText, port: address.port), api)
    if isSecure { server.identity = try identity() }
    let opened = try WebServer(server, handler: api)
    let bound = address.with(port: opened.port ?? address.port)
    state.withLock { state in
      if isSecure { state.secureServers.append(opened) } else { state.servers.append(opened) }
    }
    log(.notice, "listening", .text("listener", "admin"), .text("address", bound.description))
    return bound
  }

  private func configuration(
    _ endpoint: WebServerConfiguration.Endpoint, _ api: AdminAPI
  ) -> WebServerConfiguration {
    var server = WebServerConfiguration(endpoint: endpoint)
    if api.view.decidingNode != nil { server.limits.threads = Self.edgeThreads }
    return server
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

  /// Answers a request that another node has authorized.
  ///
  /// - Parameters:
  ///   - request: What ``DecidingNode/ask(_:mayBeRepeated:_:)`` was given there.
  ///   - done: Called once, on any thread.
  package func answer(
    _ request: [UInt8], from node: NodeName, _ done: @escaping @Sendable ([UInt8]) -> Void
  ) {
    let ready = state.withLock { state -> (AdminAPI, WebPool)? in
      guard let api = state.api else { return nil }
      let pool = state.pool ?? WebPool(threads: WebLimits().threads)
      state.pool = pool
      return (api, pool)
    }
    guard let (api, pool) = ready else {
      let problem = AdminProblem(.unavailable, "the node that serves is starting or stopping")
      return done(ForwardedResponse(problem.response).bytes)
    }
    pool.submit {
      guard let forwarded = ForwardedRequest(request, from: node.text) else {
        let problem = AdminProblem(
          .malformed,
          "the node \(node.text) passed on what is no request: do the nodes have different versions?"
        )
        return done(ForwardedResponse(problem.response).bytes)
      }
      done(ForwardedResponse(api.answer(linked: forwarded.request)).bytes)
    }
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
    last.pool?.stop()
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
