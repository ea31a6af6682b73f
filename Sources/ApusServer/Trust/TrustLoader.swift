import ApusCore
import ApusLoop
import Synchronization

/// The trust data in force is older than what the files say, because they could not be taken up.
struct TrustStaleness: Sendable, Equatable {
  /// When the first reload failed, Unix milliseconds.
  var sinceMilliseconds: Int64
  /// Why the last one failed, for the operator.
  var reason: String
}

/// Reads what trust is made of, anew each time, and keeps count of the generations.
final class TrustLoader: Sendable {
  private let directory: DataDirectory
  private let configuration: ServerConfiguration
  private let audit: AuditLog
  /// That of the last snapshot.
  private let generation = Mutex<UInt64>(0)
  private let stale = Mutex<TrustStaleness?>(nil)

  init(_ directory: DataDirectory, _ configuration: ServerConfiguration, _ audit: AuditLog) {
    self.directory = directory
    self.configuration = configuration
    self.audit = audit
  }

  /// Throws what is wrong with the data directory, in words for the operator.
  func load() throws -> Trust {
    try generation.withLock { generation in
      let trust = try directory.trust(
        generation: generation + 1, allowsES512: configuration.allowsES512)
      generation += 1
      return trust
    }
  }

  /// Since when the trust data in force is older than the files, and why they were not taken up.
  var staleness: TrustStaleness? { stale.withLock { $0 } }

  /// Reads it again. False where something is wrong with it: everybody goes on with what they have, and the reason is
  /// logged when it is a new one.
  func reload(_ use: (Trust) throws -> Void) -> Bool {
    let log = configuration.log
    do {
      let trust = try load()
      try use(trust)
      stale.withLock { $0 = nil }
      log(.notice, "directory reloaded", .number("apps", trust.directory.apps.count))
      audit.record(
        .trustReloaded, actor: "service", subject: "directory",
        .number("generation", trust.directory.generation),
        .number("keys", trust.directory.keys.count), .number("apps", trust.directory.apps.count),
        .number("revoked", trust.directory.revokedCount))
      return true
    } catch {
      guard isNews("\(error)") else { return false }
      log(.error, "directory not reloaded", .text("reason", "\(error)"))
      audit.record(
        .trustNotReloaded, actor: "service", subject: "directory", .text("reason", "\(error)"))
      return false
    }
  }

  /// Remembers why the last reload failed; false where the one before failed for the same reason.
  private func isNews(_ reason: String) -> Bool {
    stale.withLock { stale in
      guard stale?.reason != reason else { return false }
      let since = stale?.sinceMilliseconds ?? EventLoop.wallClockMilliseconds()
      stale = TrustStaleness(sinceMilliseconds: since, reason: reason)
      return true
    }
  }
}
