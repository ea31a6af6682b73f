import ApusThread
import Synchronization

/// An HTTP/1.1 server based on libmicrohttpd.
///
/// One thread reads and writes; others answer (``WebLimits/threads``). Handlers run on the latter and must treat the
/// rest of the program as any other thread would.
package final class WebServer: Sendable {
  private struct State {
    var configuration: WebServerConfiguration
    /// Nil once the server has stopped.
    var daemon: WebDaemon?
  }

  private let listener: WebListener
  private let handler: any WebHandler
  private let pool: WebPool
  private let state: Mutex<State>
  /// Number of replaced daemons that are still ending.
  private let retiring = Monitor(0)

  /// Starts the server.
  package init(
    _ configuration: WebServerConfiguration, handler: any WebHandler
  ) throws(WebError) {
    let listener = try WebListener(configuration.endpoint)
    let pool = WebPool(threads: configuration.limits.threads)
    do throws(WebError) {
      let daemon = try WebDaemon(listener, configuration, pool: pool, handler: handler)
      state = Mutex(State(configuration: configuration, daemon: daemon))
    } catch {
      pool.stop()
      listener.close()
      throw error
    }
    self.listener = listener
    self.handler = handler
    self.pool = pool
    watchSlow()
  }

  /// The bound port; nil for a UNIX socket.
  package var port: UInt16? { listener.port }

  /// Number of open connections.
  package var connectionCount: Int { state.withLock { $0.daemon }?.connectionCount ?? 0 }

  /// Uses another certificate from the next handshake on. Existing connections end, each after its pending response.
  ///
  /// If the identity cannot be used, the old one stays.
  package func replace(_ identity: WebIdentity) throws(WebError) {
    let (old, configuration) = state.withLock { ($0.daemon, $0.configuration) }
    guard let old, configuration.identity != identity else { return }
    var renewed = configuration
    renewed.identity = identity
    // Both daemons share the listener for a moment. The older one then ends on another thread, so that the caller does
    // not block.
    let daemon = try WebDaemon(listener, renewed, pool: pool, handler: handler)
    let isStopped = state.withLock { state in
      guard state.daemon != nil else { return true }
      state = State(configuration: renewed, daemon: daemon)
      return false
    }
    let last = isStopped ? daemon : old
    retiring.notify { $0 += 1 }
    startThread { [retiring] in
      last.stop()
      retiring.notify { $0 -= 1 }
    }
  }

  /// Stops the server. Returns when all responses are sent and all threads have ended.
  package func stop() {
    let daemon = state.withLock { state in
      defer { state.daemon = nil }
      return state.daemon
    }
    guard let daemon else { return }
    pool.hurry()
    daemon.stop()
    retiring.wait { $0 == 0 ? .found(()) : .wait(untilMilliseconds: nil) }
    pool.stop()
    listener.close()
  }

  deinit { stop() }

  private func watchSlow() {
    pool.submit(afterMilliseconds: 1000) { [weak self] in
      guard let self, let daemon = state.withLock({ $0.daemon }) else { return }
      daemon.cutOffSlow()
      watchSlow()
    }
  }
}
