import ApusCore
package import ApusTrust

extension DataDirectory {
  /// The paths of the authorities' revocation lists, sorted.
  func revocationLists() throws(FileError) -> [String] {
    try Files.names(in: revocationListPath).filter { $0.hasSuffix(".crl") || $0.hasSuffix(".pem") }
      .sorted().map { "\(revocationListPath)/\($0)" }
  }

  /// The certificates that the authorities' lists revoke, by issuer and serial number.
  ///
  /// A list that cannot be verified is an error for the whole reload: ignoring it would admit what it revokes. An
  /// outdated list still applies, because revocation is permanent (RFC 5280, section 5.3.1, except certificateHold).
  func revokedPlaces() throws(DirectoryProblem) -> [CertificateFingerprint] {
    let files: [String]
    do { files = try revocationLists() } catch { throw DirectoryProblem("\(error)") }
    if files.isEmpty { return [] }
    let authorities = try certificates(of: .service) + certificates(of: .devices)
    var places: [CertificateFingerprint] = []
    for file in files {
      do {
        let list = try RevocationList(Files.read(file), authorities: authorities)
        places += list.places.map { CertificateFingerprint($0) }
      } catch {
        throw DirectoryProblem("\(file): \(error)")
      }
    }
    return places
  }

  /// The trusted certificates in an authority's file.
  package func certificates(of which: Authority) throws(DirectoryProblem) -> [Certificate] {
    let file = authorityCertificate(which)
    do {
      return try Certificate.all(pem: Files.readText(file))
    } catch {
      throw DirectoryProblem("\(file): \(error)")
    }
  }
}
