package import ApusAdmin
package import ApusCore
package import ApusDirectory
package import ApusLoop
package import ApusModel
import ApusServer
import ApusTrust
import Synchronization

/// The service behind a `TestService`. Several tests may hold it, but only one stops it.
package final class TestServiceHandle: Sendable {
  // `Service` must be called from one thread at a time, which the lock ensures.
  private let running: Mutex<Unchecked?>

  private struct Unchecked: @unchecked Sendable {
    /// One for each part of the devices.
    var services: [Service]
    /// Nil unless they are behind one.
    var edge: Service?

    /// The one that has what exists once.
    var service: Service { services[0] }
    /// The one that clients and administrators connect to.
    var front: Service { edge ?? services[services.count - 1] }
    var all: [Service] { (edge.map { [$0] } ?? []) + services.reversed() }
  }

  init(_ services: sending [Service], edge: sending Service? = nil) {
    running = Mutex(Unchecked(services: services, edge: edge))
  }

  /// The sum over all parts of the devices.
  private func sum(_ number: (Service) -> Int) -> Int {
    running.withLock { $0?.services.reduce(0) { $0 + number($1) } ?? 0 }
  }

  package func stop() {
    running.withLock { running in
      for service in running?.all ?? [] { service.stop() }
      running = nil
    }
  }

  func stop(wait: (Int64) -> Bool) {
    running.withLock { running in
      for service in running?.all ?? [] { service.stop(wait: wait) }
      running = nil
    }
  }

  /// The edge is that of the node that takes over: devices that a node has had wait for its service.
  package func surrender() { running.withLock { $0?.edge?.surrenderAddresses() } }

  /// Has the service go on with the devices of the edge, as at a node that takes over. Returns how many they are.
  package func takeDevices() -> Int {
    running.withLock { running in
      running.flatMap { both in both.edge.map { both.service.takeDevices(from: $0) } } ?? 0
    }
  }

  package func counts() -> [DeliveryState: UInt64] {
    running.withLock { running in
      running?.services.reduce(into: [:]) { sum, service in
        sum.merge(service.counts()) { $0 + $1 }
      } ?? [:]
    }
  }

  /// The figures of channels.
  package func channelCensus() -> ChannelCensus? {
    running.withLock { $0?.service.channelMetrics.census() }
  }

  package func writeChannelMetrics(nowSeconds: Int64) {
    running.withLock { $0?.service.channelMetrics.write(nowSeconds: nowSeconds) }
  }

  /// Connections of all kinds.
  package func connectionCount() -> Int { sum { $0.connectionCount() } }

  /// Bytes of memory used for notifications.
  package func notificationBytes() -> Int { sum { $0.notificationBytes() } }

  package func dormancy() -> Dormancy { running.withLock { $0?.service.dormancy() ?? Dormancy() } }

  /// The counters of each topic.
  package func topicCounters() -> [TopicCounters] {
    running.withLock { $0?.services.flatMap { $0.topicCounters() }.added() ?? [] }
  }

  /// The addresses of the TLS administration API and of the console.
  package var adminAddresses: [SocketAddress] {
    running.withLock { $0?.front.adminAddresses ?? [] }
  }
  package var consoleURLs: [String] { running.withLock { $0?.front.consoleURLs ?? [] } }

  package func expiringCertificates() -> [ExpiryWatch.Entry] {
    running.withLock { $0?.service.expiringCertificates() ?? [] }
  }

  /// Number of rejected requests for each reason.
  package func rejections() -> [Reason: UInt64] {
    running.withLock { running in
      running?.services.reduce(into: [:]) { sum, service in
        sum.merge(service.administered.rejections()) { $0 + $1 }
      } ?? [:]
    }
  }

  /// The trust data in use; nil after the end of the service.
  package func trust() -> Trust? { running.withLock { $0?.service.currentTrust() } }

  /// Since when the trust data is older than the files, and why; nil if it is current.
  package func staleness() -> TrustStaleness? {
    running.withLock { $0?.service.administered.staleness }
  }

  package func clockChanged() { running.withLock { $0?.services.forEach { $0.clockChanged() } } }

  /// Tells the service that clients connect to which node decides about a part of the devices; nil for none.
  package func setLinkTarget(
    _ place: (node: NodeName, address: SocketAddress)?, part: Int = 0
  ) {
    running.withLock { $0?.front.links?.set(place, part: part) }
  }

  /// Takes the node of part 1 away from that of part 0.
  package func loseOtherPart() { running.withLock { $0?.service.links?.set(nil, part: 1) } }

  package func reload() {
    running.withLock { running in
      for service in running?.all ?? [] { service.reload() }
    }
  }
}
