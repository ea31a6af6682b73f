package import ApusLog
package import ApusTrust
import Synchronization

/// Certificates whose end is near: the service's own, its authorities', and those that providers and devices show.
///
/// Each is warned of when 30, 7 and 1 days are left, once, and when it is over; and while it is near its end it is in
/// the list that metrics are made of.
package final class ExpiryWatch: Sendable {
  /// Days before the end at which somebody is told.
  package static let warningDays: [Int64] = [30, 7, 1, 0]
  package static var horizonSeconds: Int64 { warningDays[0] * 86_400 }
  /// Certificates that are remembered; beyond it those that last longest are not.
  static let capacity = 4096
  /// Certificates that are known to have been looked at; 16 bytes each. Beyond it all are looked at again.
  static let seenCapacity = 65_536

  package enum Kind: String, Sendable {
    case server
    case authority
    case provider
    case device
  }

  /// A certificate that ends within 30 days.
  package struct Entry: Sendable, Hashable {
    package var kind: Kind
    /// What it names: a host, an authority, a bundle id, a device.
    package var name: String
    /// Unix seconds.
    package var notAfter: Int64
    /// Of the whole certificate, where it is known.
    package var sha256: SHA256Digest?

    package init(kind: Kind, name: String, notAfter: Int64, sha256: SHA256Digest? = nil) {
      self.kind = kind
      self.name = name
      self.notAfter = notAfter
      self.sha256 = sha256
    }
  }

  private struct State {
    /// With the days of the last warning.
    var warned: [Entry: Int64] = [:]
    /// The certificate that a provider showed last, by the provider's name.
    var providers: [String: Entry] = [:]
    /// Hashes of the certificates that were looked at on `day`.
    var seen: Set<Int> = []
    var day: Int64 = 0
  }

  private let log: Log
  private let state = Mutex(State())

  package init(log: Log) { self.log = log }

  /// Whether a certificate has not been looked at on this day. To read one costs as much as a third of a handshake, and
  /// a whole fleet would pay that at each connection in the last month of its certificates.
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

  /// Takes a look at a certificate; cheap for one that is not near its end.
  package func look(at entry: Entry, nowSeconds: Int64) {
    let left = entry.notAfter - nowSeconds
    if entry.kind == .provider { remember(entry) }
    guard left <= Self.horizonSeconds else { return }
    // The nearest mark that was passed.
    let mark = Self.warningDays.last { left <= $0 * 86_400 } ?? Self.warningDays[0]
    let isNew = state.withLock { state in
      if let last = state.warned[entry] {
        guard mark < last else { return false }
      } else if state.warned.count >= Self.capacity {
        Self.makeRoom(in: &state, nowSeconds: nowSeconds)
        guard state.warned.count < Self.capacity else { return false }
      }
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
      .text("remedy", Self.remedy(entry.kind)))
  }

  private func remember(_ provider: Entry) {
    state.withLock { state in
      guard state.providers[provider.name] != nil || state.providers.count < Self.capacity else {
        return
      }
      state.providers[provider.name] = provider
    }
  }

  /// All that is remembered: the certificates of ``entries()``, and those that providers showed last, however long they
  /// last.
  package func known() -> [Entry] {
    let (warned, providers) = state.withLock { ($0.warned.keys, $0.providers) }
    return warned.filter { $0.kind != .provider } + providers.values
  }

  /// Those of ``known()`` that others showed, the nearest end first.
  package func shown() -> [Entry] {
    known().filter { $0.kind == .provider || $0.kind == .device }
      .sorted { ($0.notAfter, $0.name) < ($1.notAfter, $1.name) }
  }

  /// Forgets what ended more than a day ago: nobody can show it any more.
  private static func makeRoom(in state: inout State, nowSeconds: Int64) {
    state.warned = state.warned.filter { $0.key.notAfter > nowSeconds - 86_400 }
  }

  private static func remedy(_ kind: Kind) -> String {
    switch kind {
    case .server: "apus rotate server"
    case .authority: "apus rotate service-authority, or device-authority"
    case .provider: "apus cert, and give it to the provider"
    case .device: "the device renews it, or needs another from apus device"
    }
  }

  /// All that end within 30 days, the nearest first.
  package func entries() -> [Entry] {
    state.withLock { $0.warned.keys.sorted { $0.notAfter < $1.notAfter } }
  }

  /// Forgets the service's own, which may have been replaced, for them to be looked at anew.
  func forgetOwn(besides current: [Entry]) {
    state.withLock { state in
      state.warned = state.warned.filter { entry, _ in
        entry.kind == .provider || entry.kind == .device || current.contains(entry)
      }
    }
  }
}

extension DataDirectory {
  /// The service's own certificates, and those of its authorities.
  package func ownCertificates() throws -> [ExpiryWatch.Entry] {
    try namedCertificates().map {
      .init(kind: $0.kind, name: $0.name, notAfter: $0.certificate.notAfter)
    }
  }

  /// The same, whole.
  package func namedCertificates() throws
    -> [(kind: ExpiryWatch.Kind, name: String, certificate: Certificate)]
  {
    var named: [(kind: ExpiryWatch.Kind, name: String, certificate: Certificate)] = []
    for files in [serverFiles, serverRSAFiles] where files.exist {
      let certificate = try Certificate(pem: Files.readText(files.certificate))
      let name = certificate.serverNames.first ?? certificate.subject.commonName ?? "server"
      named.append((.server, name, certificate))
    }
    for which in [Authority.service, .devices] {
      for certificate in try certificates(of: which) {
        named.append((.authority, certificate.subject.commonName ?? which.rawValue, certificate))
      }
    }
    return named
  }
}
