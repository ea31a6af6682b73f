import ApusCore
import Synchronization

/// Reads what trust is made of, anew each time, and keeps count of the generations.
final class TrustLoader: Sendable {
  private let directory: DataDirectory
  private let configuration: ServerConfiguration
  private let audit: AuditLog
  /// That of the last snapshot.
  private let generation = Mutex<UInt64>(0)

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

  /// Reads it again. What is wrong is logged, and everybody goes on with what they have.
  func reload(_ use: (Trust) throws -> Void) {
    let log = configuration.log
    do {
      let trust = try load()
      try use(trust)
      log(.notice, "directory reloaded", .number("apps", trust.directory.apps.count))
      audit.record(
        .trustReloaded, actor: "service", subject: "directory",
        .number("generation", trust.directory.generation),
        .number("keys", trust.directory.keys.count), .number("apps", trust.directory.apps.count),
        .number("revoked", trust.directory.revokedCount))
    } catch {
      log(.error, "directory not reloaded", .text("reason", "\(error)"))
      audit.record(
        .trustNotReloaded, actor: "service", subject: "directory", .text("reason", "\(error)"))
    }
  }
}
