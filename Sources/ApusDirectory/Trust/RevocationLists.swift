import ApusCore
package import ApusTrust

extension DataDirectory {
  /// The files of authorities' revocation lists.
  func revocationLists() throws(FileError) -> [String] {
    try Files.names(in: revocationListPath).filter { $0.hasSuffix(".crl") || $0.hasSuffix(".pem") }
      .sorted().map { "\(revocationListPath)/\($0)" }
  }

  /// What the authorities of this service took back, by issuer and serial number.
  ///
  /// A list that cannot be believed stops the whole: going on without it would let in what it revokes. One that is
  /// overdue still counts, for certificates do not come back (RFC 5280, section 5.3.1, but for "hold").
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

  /// The certificates in an authority's file: its own, and those that lead to its root.
  package func certificates(of which: Authority) throws(DirectoryProblem) -> [Certificate] {
    let file = authorityCertificate(which)
    do {
      return try Certificate.all(pem: Files.readText(file))
    } catch {
      throw DirectoryProblem("\(file): \(error)")
    }
  }
}
