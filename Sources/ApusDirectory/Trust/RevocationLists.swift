import ApusCore
package import ApusTrust

/// The folder of revocation lists, as it was when the trust data was read.
struct RevocationFolder: Sendable, Equatable {
  /// Nil if not known.
  var fileSystem: UInt?
  var listCount = 0
}

extension DataDirectory {
  /// Marks that this directory has had a folder of revocation lists. Without it, an unmounted volume would look like
  /// a service without lists, and revoked certificates would be accepted again.
  private var revocationFolderMark: String { "\(path)/crls.made" }

  /// Creates the folder, empty.
  func makeRevocationFolder() throws {
    try Files.makeDirectory(revocationListPath)
    try markRevocationFolder()
  }

  /// From now on the folder may not be missing, also not at a start.
  func markRevocationFolder() throws {
    guard !Files.exists(revocationFolderMark) else { return }
    _ = try DurableFile.create([], at: revocationFolderMark)
  }

  /// What is known of the folder before the trust data is read for the first time; nil: it may be missing.
  var expectedRevocationFolder: RevocationFolder? {
    Files.exists(revocationFolderMark) ? RevocationFolder() : nil
  }

  /// Looks at the folder; nil if there is none, and never was.
  ///
  /// One list may be deleted, because an operator does that. A missing folder, and an empty one on another file system,
  /// look like a volume that is not mounted.
  ///
  /// - Parameter previous: The folder when the trust data was last read.
  /// - Throws: That it disappeared since then, and what to do.
  func revocationFolder(
    after previous: RevocationFolder?
  ) throws(DirectoryProblem) -> RevocationFolder? {
    let fileSystem: UInt?
    let count: Int
    do {
      fileSystem = try Files.fileSystem(of: revocationListPath)
      count = try revocationLists().count
    } catch { throw DirectoryProblem("\(error)") }
    guard let previous else {
      return fileSystem.map { RevocationFolder(fileSystem: $0, listCount: count) }
    }
    guard let fileSystem else {
      throw DirectoryProblem(
        "the folder of revocation lists \(revocationListPath) is missing: mount or restore it, or create an empty "
          + "folder if there are no lists")
    }
    if count == 0, previous.listCount > 0, fileSystem != previous.fileSystem {
      throw DirectoryProblem(
        "the folder of revocation lists \(revocationListPath) is empty and on another file system than the lists "
          + "in use: mount that one again, or restart the service if there are no lists any more")
    }
    return RevocationFolder(fileSystem: fileSystem, listCount: count)
  }

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
