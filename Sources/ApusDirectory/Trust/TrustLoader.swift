import ApusCore
package import ApusLog
import ApusLoop
import Synchronization

/// The trust data in use is older than the files, because a reload failed.
package struct TrustStaleness: Sendable, Equatable {
  /// When the first reload failed, Unix milliseconds.
  package var sinceMilliseconds: Int64
  /// Why the last one failed, for the operator.
  package var reason: String
}

/// Reads the trust data, and numbers its generations.
package final class TrustLoader: Sendable {
  private let directory: DataDirectory
  private let allowsES512: Bool
  private let log: Log
  private let audit: AuditLog
  private let last: Mutex<Loaded>
  private let stale = Mutex<TrustStaleness?>(nil)

  /// What the last successful load found.
  private struct Loaded {
    /// The generation of its snapshot.
    var generation: UInt64 = 0
    /// What is in use, which may be older.
    var trust: Trust?
    var revocationFolder: RevocationFolder?
  }

  package init(_ directory: DataDirectory, allowsES512: Bool, _ audit: AuditLog, log: Log) {
    self.directory = directory
    self.allowsES512 = allowsES512
    self.log = log
    self.audit = audit
    last = Mutex(Loaded(revocationFolder: directory.expectedRevocationFolder))
  }

  /// Reads the trust data.
  ///
  /// - Throws: What is wrong with the data directory, for the operator.
  package func load() throws -> Trust {
    try last.withLock { last in
      let trust = try directory.trust(
        generation: last.generation + 1, allowsES512: allowsES512)
      // After the lists were read: if the folder disappeared before, the trust data has none of them.
      let folder = try directory.revocationFolder(after: last.revocationFolder)
      logState(folder, isFirst: last.generation == 0)
      last = Loaded(
        generation: last.generation + 1, trust: last.trust ?? trust, revocationFolder: folder)
      return trust
    }
  }

  /// The trust data in use; nil before the first time.
  package var current: Trust? { last.withLock { $0.trust } }

  private func logState(_ folder: RevocationFolder?, isFirst: Bool) {
    guard folder != nil else {
      if isFirst {
        log(
          .warning, "no folder of revocation lists: create it, empty if there are no lists",
          .text("folder", directory.revocationListPath))
      }
      return
    }
    do { try directory.markRevocationFolder() } catch {
      // The running service notices if the folder disappears; only the next start would not.
      log(.warning, "folder of revocation lists not marked", .text("reason", "\(error)"))
    }
  }

  /// Since when the trust data in use is older than the files, and why the reload failed; nil if it is current.
  package var staleness: TrustStaleness? { stale.withLock { $0 } }

  /// Reads the trust data again. If that fails, returns false: the previous data stays in use, and a new reason is
  /// logged.
  package func reload(_ use: (Trust) throws -> Void) -> Bool {
    do {
      let trust = try load()
      try use(trust)
      last.withLock { $0.trust = trust }
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

  /// Records why the last reload failed; false if the one before failed for the same reason.
  private func isNews(_ reason: String) -> Bool {
    stale.withLock { stale in
      guard stale?.reason != reason else { return false }
      let since = stale?.sinceMilliseconds ?? EventLoop.wallClockMilliseconds()
      stale = TrustStaleness(sinceMilliseconds: since, reason: reason)
      return true
    }
  }
}
