import ApusCore
package import ApusLog
import ApusLoop
import Synchronization

/// The trust data in force is older than what the files say, because they could not be taken up.
package struct TrustStaleness: Sendable, Equatable {
  /// When the first reload failed, Unix milliseconds.
  package var sinceMilliseconds: Int64
  /// Why the last one failed, for the operator.
  package var reason: String
}

/// Reads what trust is made of, anew each time, and keeps count of the generations.
package final class TrustLoader: Sendable {
  private let directory: DataDirectory
  private let allowsES512: Bool
  private let log: Log
  private let audit: AuditLog
  /// That of the last snapshot.
  private let generation = Mutex<UInt64>(0)
  private let stale = Mutex<TrustStaleness?>(nil)

  package init(_ directory: DataDirectory, allowsES512: Bool, _ audit: AuditLog, log: Log) {
    self.directory = directory
    self.allowsES512 = allowsES512
    self.log = log
    self.audit = audit
  }

  /// Throws what is wrong with the data directory, in words for the operator.
  package func load() throws -> Trust {
    try generation.withLock { generation in
      let trust = try directory.trust(
        generation: generation + 1, allowsES512: allowsES512)
      generation += 1
      return trust
    }
  }

  /// Since when the trust data in force is older than the files, and why they were not taken up.
  package var staleness: TrustStaleness? { stale.withLock { $0 } }

  /// Reads it again. False where something is wrong with it: everybody goes on with what they have, and the reason is
  /// logged when it is a new one.
  package func reload(_ use: (Trust) throws -> Void) -> Bool {
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
