package import ApusCore
import ApusModel
import Synchronization

/// The certificates that are worth nothing any more, for handshakes on every thread.
package final class Revocations: Sendable {
  private let directory: Mutex<Directory>

  package init(_ directory: Directory) { self.directory = Mutex(directory) }

  package func replace(_ directory: Directory) { self.directory.withLock { $0 = directory } }

  /// Whether the certificate of that SHA-256 is among them.
  package func contain(_ sha256: Span<UInt8>) -> Bool {
    guard let fingerprint = CertificateFingerprint(sha256) else { return false }
    return directory.withLock { $0 }.isRevoked(fingerprint)
  }
}
