package import ApusLog
package import ApusModel
package import ApusTrust
import Synchronization

/// Certificates that expire soon: the service's own, its authorities', and those that providers and devices present.
/// Of each provider and each device the one counts that it presented last, until a day after its end.
///
/// Logs one warning for each when 30, 7 and 1 days are left, and when it has expired. Certificates that expire within
/// 30 days are in the list for metrics.
package final class ExpiryWatch: Sendable {
  /// Days before expiry at which a warning is logged.
  package static let warningDays: [Int64] = [30, 7, 1, 0]
  package static var horizonSeconds: Int64 { warningDays[0] * 86_400 }
  /// The maximum number of certificates kept; when it is reached, new ones are ignored.
  static let capacity = 4096
  /// The maximum number of certificates known to be checked today, 16 bytes each; beyond it, all are checked again.
  static let seenCapacity = 65_536

  package enum Kind: String, Sendable {
    case server
    case authority
    case provider
    case device
    /// Shown to an app's upstream.
    case upstream
  }

  /// A certificate that ends within 30 days.
  package struct Entry: Sendable, Hashable {
    package var kind: Kind
    /// The subject: a host, an authority, a bundle id or a device. Of an upstream, the bundle id of its app.
    package var name: String
    /// Unix seconds.
    package var notAfter: Int64
    /// Of the whole certificate, if known.
    package var sha256: SHA256Digest?

    /// Whether the service presents it, or trusts it.
    var isOwn: Bool { kind == .server || kind == .authority || kind == .upstream }

    package init(kind: Kind, name: String, notAfter: Int64, sha256: SHA256Digest? = nil) {
      self.kind = kind
      self.name = name
      self.notAfter = notAfter
      self.sha256 = sha256
    }
  }

  private struct State {
    /// The days of the last warning for each certificate.
    var warned: [Entry: Int64] = [:]
    /// The certificate that each provider last presented, by the provider's name.
    var providers: [String: Entry] = [:]
    /// The same of each device whose certificate is in `warned`.
    var devices: [String: Entry] = [:]
    /// Hashes of the certificates checked on `day`.
    var seen: Set<Int> = []
    var day: Int64 = 0

    mutating func replaceDevice(_ name: String, by entry: Entry?) {
      if let last = devices[name], last != entry { warned[last] = nil }
      devices[name] = entry
    }

    /// Drops certificates of peers that expired more than a day ago: they can no longer be presented.
    mutating func dropExpired(nowSeconds: Int64) {
      func isKept(_ entry: Entry) -> Bool {
        entry.isOwn || entry.notAfter > nowSeconds - 86_400
      }
      warned = warned.filter { isKept($0.key) }
      providers = providers.filter { isKept($0.value) }
      devices = devices.filter { isKept($0.value) }
    }
  }

  private let log: Log
  private let state = Mutex(State())

  package init(log: Log) { self.log = log }

  /// Whether a certificate has not been checked today. Parsing one costs as much as a third of a handshake, and in the
  /// last month of its certificates a whole fleet would incur that with each connection.
  package func isNews(_ der: [UInt8], nowSeconds: Int64) -> Bool {
    let (hash, day) = (der.hashValue, nowSeconds / 86_400)
    return state.withLock { state in
      if state.day != day || state.seen.count >= Self.seenCapacity {
        state.seen.removeAll(keepingCapacity: true)
        state.day = day
      }
      return state.seen.insert(hash).inserted
    }
  }

  /// Checks a certificate and logs a warning if one is due; cheap for one that does not expire soon.
  ///
  /// - Parameter remedy: What to do about it; nil for what its kind says.
  package func look(at entry: Entry, nowSeconds: Int64, remedy: String? = nil) {
    let left = entry.notAfter - nowSeconds
    if entry.kind == .provider { remember(entry) }
    guard left <= Self.horizonSeconds else { return }
    // The last threshold passed.
    let mark = Self.warningDays.last { left <= $0 * 86_400 } ?? Self.warningDays[0]
    let isNew = state.withLock { state in
      if let last = state.warned[entry] {
        guard mark < last else { return false }
      } else if state.warned.count >= Self.capacity {
        state.dropExpired(nowSeconds: nowSeconds)
        guard state.warned.count < Self.capacity else { return false }
      }
      if entry.kind == .device { state.replaceDevice(entry.name, by: entry) }
      state.warned[entry] = mark
      return true
    }
    guard isNew else { return }
    log(
      mark <= 7 ? .warning : .notice,
      left > 0 ? "certificate expires soon" : "certificate has expired",
      .text("kind", entry.kind.rawValue), .text("name", entry.name),
      .number("days_left", max(0, left / 86_400)),
      .text("ends", Log.timestamp(entry.notAfter * 1000)),
      .text("remedy", remedy ?? Self.remedy(entry.kind)))
  }

  /// A device is accepted, whose certificate ends then: what is known of an earlier one is out of date. Cheap.
  package func deviceAccepted(_ device: DeviceID, notAfter: Int64) {
    state.withLock { state in
      guard !state.devices.isEmpty else { return }
      let name = device.text
      guard let last = state.devices[name], last.notAfter < notAfter else { return }
      state.replaceDevice(name, by: nil)
    }
  }

  private func remember(_ provider: Entry) {
    state.withLock { state in
      guard state.providers[provider.name] != nil || state.providers.count < Self.capacity else {
        return
      }
      state.providers[provider.name] = provider
    }
  }

  /// All certificates kept: those of ``entries()``, and the one that each provider last presented, whenever it expires.
  package func known() -> [Entry] {
    let (warned, providers) = state.withLock { ($0.warned.keys, $0.providers) }
    return warned.filter { $0.kind != .provider } + providers.values
  }

  /// Those of ``known()`` that providers and devices presented, the first to expire first.
  package func shown() -> [Entry] {
    known().filter { !$0.isOwn }
      .sorted { ($0.notAfter, $0.name) < ($1.notAfter, $1.name) }
  }

  private static func remedy(_ kind: Kind) -> String {
    switch kind {
    case .server: "apus rotate server"
    case .authority: "apus rotate service-authority, or device-authority"
    case .provider: "apus cert, and give it to the provider"
    case .upstream: "get another one upstream, and apus app --change TOPIC --upstream-certificate"
    case .device: "the device renews it, or needs another from apus device add"
    }
  }

  /// All certificates that expire within 30 days, the first to expire first.
  package func entries() -> [Entry] {
    state.withLock { state in
      state.warned.keys
        .filter { $0.kind != .provider || $0 == state.providers[$0.name] ?? $0 }
        .sorted { $0.notAfter < $1.notAfter }
    }
  }

  /// Drops the service's own certificates except the current ones, since they may have been replaced, and everybody's
  /// that can no longer be presented.
  func tidy(own current: [Entry], nowSeconds: Int64) {
    state.withLock { state in
      state.dropExpired(nowSeconds: nowSeconds)
      state.warned = state.warned.filter { entry, _ in
        !entry.isOwn || current.contains(entry)
      }
    }
  }
}

/// A certificate of the service, of an authority or for an upstream, as an operator knows it.
package struct NamedCertificate: Sendable {
  package var kind: ExpiryWatch.Kind
  package var name: String
  package var certificate: Certificate

  package var entry: ExpiryWatch.Entry {
    .init(kind: kind, name: name, notAfter: certificate.notAfter)
  }
}

extension DataDirectory {
  /// The certificates of the service and its authorities, and those shown upstream.
  package func namedCertificates() throws -> [NamedCertificate] {
    var named: [NamedCertificate] = []
    for files in [serverFiles, serverRSAFiles] where files.exist {
      let certificate = try Certificate(pem: Files.readText(files.certificate))
      let name = certificate.serverNames.first ?? certificate.subject.commonName ?? "server"
      named.append(.init(kind: .server, name: name, certificate: certificate))
    }
    for which in [Authority.service, .devices] {
      for certificate in try certificates(of: which) {
        let name = certificate.subject.commonName ?? which.rawValue
        named.append(.init(kind: .authority, name: name, certificate: certificate))
      }
    }
    return named + upstreamCertificates()
  }
}
