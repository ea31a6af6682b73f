package import ApusLog
package import ApusTLS
package import ApusTrust
import Synchronization

/// The certificates that listeners present in place of the service's own: pairs of files that the operator renews, or a
/// program such as certbot.
///
/// Such programs replace certificate and key one after the other. While a pair cannot be read or does not match, the
/// one that was read before stays in use.
package final class ServerCertificates: Sendable {
  fileprivate struct Pair {
    var identity: TLSIdentity
    var certificate: Certificate
    /// Taken before the last attempt to read the files.
    var stamps: [FileStamp]
    var failure: Failure?
  }

  /// Why the files could not be read since `Pair.identity` was.
  fileprivate struct Failure {
    var reason: String
    var isReported: Bool
  }

  package struct Refresh: Equatable {
    /// Whether a listener is to present another certificate than before.
    package var hasNew = false
    /// Whether a pair could not be read, and must be tried again.
    package var hasFailed = false
  }

  private let pairs: Mutex<[IdentityFiles: Pair]>
  private let log: Log

  /// Reads all pairs.
  ///
  /// - Throws: What is wrong with which file, for the operator.
  package init(_ files: [IdentityFiles], log: Log) throws(DirectoryProblem) {
    var pairs: [IdentityFiles: Pair] = [:]
    for files in files where pairs[files] == nil { pairs[files] = try Pair(files) }
    self.pairs = Mutex(pairs)
    self.log = log
  }

  /// The certificate and the key to present; nil for files that ``init(_:log:)`` was not given.
  package func identity(_ files: IdentityFiles) -> TLSIdentity? {
    pairs.withLock { $0[files]?.identity }
  }

  /// A host that the certificate of the files names; nil if it names none, or is of one of these authorities.
  package func serverName(_ files: IdentityFiles, besides authorities: Authorities) -> String? {
    guard let certificate = pairs.withLock({ $0[files]?.certificate }),
      !certificate.leads(to: authorities.certificates, for: .server)
    else { return nil }
    return certificate.serverNames.first { !$0.hasPrefix("*") }
  }

  /// Reads the pairs whose files have changed.
  ///
  /// A failure is logged when it is met twice, since a pair that is being replaced does not match for a moment; then
  /// once for each reason.
  ///
  /// - Parameters:
  ///   - readsAll: Also the pairs whose files have not changed.
  ///   - isAsked: Whether somebody waits for the outcome: then a failure is logged at once.
  package func refresh(readsAll: Bool, isAsked: Bool = false) -> Refresh {
    pairs.withLock { pairs in
      var outcome = Refresh()
      for (files, pair) in pairs where readsAll || pair.stamps != files.stamps {
        do throws(DirectoryProblem) {
          let new = try Pair(files)
          pairs[files] = new
          guard new.identity != pair.identity else { continue }
          outcome.hasNew = true
          logReplaced(files, new.certificate)
        } catch {
          outcome.hasFailed = true
          pairs[files] = noted(error.description, files, pair, isAsked: isAsked)
        }
      }
      return outcome
    }
  }

  private func noted(
    _ reason: String, _ files: IdentityFiles, _ pair: Pair, isAsked: Bool
  ) -> Pair {
    var pair = pair
    pair.stamps = files.stamps
    let isKnown = pair.failure?.reason == reason
    if isKnown && pair.failure?.isReported == true { return pair }
    let isReported = isAsked || pair.failure != nil
    pair.failure = Failure(reason: reason, isReported: isReported)
    if isReported {
      log(
        .error, "server certificate not replaced", .text("file", files.certificate),
        .text("reason", reason))
    }
    return pair
  }

  private func logReplaced(_ files: IdentityFiles, _ certificate: Certificate) {
    log(
      .notice, "server certificate replaced", .text("file", files.certificate),
      .text("name", certificate.serverNames.first ?? ""),
      .text("ends", Log.timestamp(certificate.notAfter * 1000)))
  }

  /// Why an older certificate than that of the files is in use; nil if none is, as far as the log says.
  package var problem: String? {
    pairs.withLock { pairs in
      pairs.values.compactMap(\.failure).filter(\.isReported).map(\.reason).min()
    }
  }

  /// Those in use.
  package func named() -> [NamedCertificate] {
    pairs.withLock { $0.values.map(\.certificate) }
      .map { NamedCertificate(kind: .server, name: $0.serverNames.first ?? "", certificate: $0) }
      .sorted { $0.name < $1.name }
  }

  /// The certificate of the files, if it can be presented.
  ///
  /// - Throws: What is wrong with which file, for the operator.
  package static func examine(_ files: IdentityFiles) throws(DirectoryProblem) -> Certificate {
    try Pair(files).certificate
  }
}

extension ServerCertificates.Pair {
  init(_ files: IdentityFiles) throws(DirectoryProblem) {
    // Before reading: a change meanwhile must be seen the next time.
    stamps = files.stamps
    do throws(FileError) {
      identity = TLSIdentity(
        certificateChainPEM: try Files.read(files.certificate),
        privateKeyPEM: try Files.read(files.key))
    } catch {
      throw DirectoryProblem(
        "\(error); the user of the service must be allowed to read it, and to enter its folders")
    }
    do throws(TrustFault) {
      certificate = try Certificate(
        pem: String(decoding: identity.certificateChainPEM, as: UTF8.self))
    } catch {
      throw DirectoryProblem("no certificate can be read in \(files.certificate): \(error)")
    }
    let key: PrivateKey
    do throws(TrustFault) {
      key = try PrivateKey(pem: String(decoding: identity.privateKeyPEM, as: UTF8.self))
    } catch {
      throw DirectoryProblem("no key can be read in \(files.key): \(error)")
    }
    guard key.publicKey.spkiDER == certificate.spkiDER else {
      throw DirectoryProblem(
        "\(files.key) is not the key of the first certificate in \(files.certificate); give the "
          + "server's certificate, followed by those above it, and its key")
    }
    guard !certificate.serverNames.isEmpty else {
      throw DirectoryProblem(
        "the certificate in \(files.certificate) names no server; it needs a DNS name or an address "
          + "as an alternative name")
    }
    do throws(TLSError) {
      _ = try TLSContext(
        server: TLSServerConfiguration(identity: identity, clientCertificates: .notRequested))
    } catch {
      throw DirectoryProblem("\(files.certificate) cannot be presented: \(error)")
    }
    failure = nil
  }
}

extension IdentityFiles {
  /// Through symbolic links: certbot replaces those.
  fileprivate var stamps: [FileStamp] { [certificate, key].map(FileStamp.init) }
}
