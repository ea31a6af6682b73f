package import ApusCore
import ApusModel
import Synchronization

/// The revoked certificates, for handshakes on any thread.
package final class Revocations: Sendable {
  private let directory: Mutex<Directory>

  package init(_ directory: Directory) { self.directory = Mutex(directory) }

  package func replace(_ directory: Directory) { self.directory.withLock { $0 = directory } }

  /// Whether the certificate with that SHA-256 is revoked.
  package func contain(_ sha256: Span<UInt8>) -> Bool {
    guard let fingerprint = CertificateFingerprint(sha256) else { return false }
    return directory.withLock { $0 }.isRevoked(fingerprint)
  }
}
