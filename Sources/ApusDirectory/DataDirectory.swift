package import ApusCore
import ApusModel
import ApusTLS
package import ApusTrust
import ApusWire

/// Why the data directory could not be used, and what to do about it.
package struct DirectoryProblem: Error, Sendable, CustomStringConvertible {
  package var description: String
  package init(_ description: String) { self.description = description }
}

/// The directory with all data of a service.
///
/// ```
/// directory.conf            teams, provider keys, apps, revocations, retired devices
/// authority/service.{crt,key}   the authority for servers and providers
/// authority/devices.{crt,key}   the authority for devices; either .crt may contain further trusted authorities
/// authority/service-above.crt   if the operator supplied the service authority: those above it, for clients
/// server/server.{crt,key}   the service's own certificate
/// server/server-rsa.{crt,key}   the same with RSA, for clients that use TLS 1.0 without ECDSA
/// server/*.csr, *.next.key  pending requests for either from an external authority, and their keys
/// keys/<key id>.p8          provider keys made here, to give to the provider
/// keys/<key id>.pub         their public halves; the service reads only these
/// upstreams/<bundle id>.*   keys, certificates and passwords for apps' upstreams, see `UpstreamFiles`
/// sealing.keys              keys that seal device tokens
/// ticket.keys               keys that seal session tickets; created again if missing
/// connect.nonces            signed nonces that devices have used in the last minutes
/// certificates/             certificates issued to providers and devices
/// devices.tsv               names and tags of devices
/// enrolment/                enrolment codes, and requests that wait for the operator's approval
/// crls/                     revocation lists of the authorities, PEM or DER
/// jobs/                     pushes to many devices, and how far they are
/// audit.jsonl               every change of trust and every refusal
/// webhooks.conf             webhooks and their secrets
/// parts.conf                parts of a cluster's devices that have a database of their own
/// webhooks/                 events that wait for webhooks
/// store/                    the embedded database
/// service.addresses         where the running service listens
/// format                    the version of this layout; missing in a directory of version 0.1
/// lock                      held while any of the files above is changed, except those only the service writes
/// backup.lock               held while a backup is made
/// restoring/                what a restore is about to put into the directory
/// replaced-SECONDS/         what the directory had before a restore
/// store.made                marks that the directory has had a store, and names the database if that is one
/// store.url                 the address of that database
/// store.seen                how far it was when it was last seen
/// journal/                  what the service has not written to that database yet
/// cluster/                  the node of a cluster that the directory is, see `SharedFiles`
/// crls.made                 marks that the directory has had the folder of revocation lists
/// ```
package struct DataDirectory: Sendable {
  package let path: String

  package init(path: String) { self.path = path }

  package var directoryFile: String { "\(path)/directory.conf" }
  package var sealingFile: String { "\(path)/sealing.keys" }
  /// Nonces of connect messages, kept for as long as they could be replayed.
  package var nonceFile: String { "\(path)/connect.nonces" }
  package var ticketFile: String { "\(path)/ticket.keys" }
  package var revocationListPath: String { "\(path)/crls" }
  package var auditFile: String { "\(path)/audit.jsonl" }
  package var storePath: String { "\(path)/store" }
  package var serverFiles: IdentityFiles { IdentityFiles(base: "\(path)/server/server") }
  /// Missing in a directory that an older `apus init` created.
  package var serverRSAFiles: IdentityFiles { IdentityFiles(base: "\(path)/server/server-rsa") }
  package var issuedPath: String { "\(path)/certificates" }

  package func serverCertificate() throws -> Certificate {
    try Certificate(pem: Files.readText(serverFiles.certificate))
  }

  package enum Authority: String, Sendable {
    case service
    case devices
    /// The nodes of a cluster.
    case nodes
  }

  package func authorityCertificate(_ authority: Authority) -> String {
    "\(path)/authority/\(authority.rawValue).crt"
  }

  package func authorityKey(_ authority: Authority) -> String {
    "\(path)/authority/\(authority.rawValue).key"
  }

  package func privateKey(_ id: ShortID) -> String { "\(path)/keys/\(id.text).p8" }
  package func publicKey(_ id: ShortID) -> String { "\(path)/keys/\(id.text).pub" }

  /// Whether `apus init` has completed here.
  package var isProvisioned: Bool { Files.exists(directoryFile) }

  /// Refuses a directory without a service, one that a later version has written, and one that is half restored.
  package func requireProvisioned() throws(DirectoryProblem) {
    if let interruptedRestore { throw DirectoryProblem(interruptedRestore) }
    try requireKnownFormat()
    guard isProvisioned else {
      throw DirectoryProblem(
        "\(path) contains no Apus service; run `apus init --data \(path)` first")
    }
  }

  // MARK: Authorities

  package func authority(_ which: Authority) throws -> CertificateAuthority {
    let key = try PrivateKey(pem: Files.readText(authorityKey(which)))
    let trusted = try certificates(of: which)
    // Of several trusted authorities, take the one whose key is here.
    let own = trusted.first { $0.spkiDER == key.publicKey.spkiDER } ?? trusted[0]
    return try CertificateAuthority(certificate: own, key: key)
  }

  /// The authority, ready to issue certificates.
  ///
  /// - Throws: What to do instead, if the authority's key is kept elsewhere.
  package func issuer(_ which: Authority) throws -> CertificateAuthority {
    guard canIssue(as: which) else {
      throw DirectoryProblem(
        "\(authorityKey(which)) does not exist: the authority's key is kept elsewhere. "
          + "Have the authority sign a request (--csr-out FILE), and import the certificate with "
          + "apus cert --import FILE")
    }
    return try authority(which)
  }

  func save(_ authority: CertificateAuthority, as which: Authority) throws {
    try Files.write(
      authority.certificate.pem, to: authorityCertificate(which), isPrivate: false)
    try Files.write(authority.key.pkcs8PEM, to: authorityKey(which), isPrivate: true)
  }

  /// The trusted authorities, the issuing one first.
  private func authorities(_ which: Authority) throws -> Authorities {
    let trusted = try certificates(of: which)
    let issuing = issuingCertificate(of: which, among: trusted)
    return Authorities([issuing] + trusted.filter { $0 != issuing })
  }

  // MARK: Sealing keys

  package func sealingKeys() throws -> TokenSealingKeys {
    let digits = 2 * TokenSealingKeys.Key.byteCount
    var keys: [TokenSealingKeys.Key] = []
    let lines = try Files.readText(sealingFile).split(
      separator: "\n", omittingEmptySubsequences: false)
    for (index, raw) in lines.enumerated() {
      let line = raw.trimmed
      if line.isEmpty || line.first == "#" { continue }
      let sides = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard sides.count == 2, let id = UInt8(sides[0].trimmed) else {
        throw sealingProblem(index + 1, "the line is not `number = \(digits) hexadecimal digits`")
      }
      let value = Array(sides[1].trimmed.utf8)
      guard value.count == digits, let bytes = Hex.decode(value.span) else {
        throw sealingProblem(
          index + 1,
          "key \(id) needs \(digits) hexadecimal digits and has \(value.count) characters")
      }
      guard !keys.contains(where: { $0.id == id }) else {
        throw sealingProblem(index + 1, "an earlier line already defines the key \(id)")
      }
      keys.append(TokenSealingKeys.Key(id: id, bytes: bytes))
    }
    guard !keys.isEmpty else { throw sealingProblem(lines.count, "the file has no key") }
    return try TokenSealingKeys(keys)
  }

  /// A truncated file must be restored, not replaced: only these keys open the device tokens that providers have.
  private func sealingProblem(_ line: Int, _ text: String) -> DirectoryProblem {
    DirectoryProblem(
      "\(sealingFile), line \(line): \(text). If the file was truncated, restore it from a backup: "
        + "no other key opens the device tokens that providers have")
  }

  func save(_ keys: TokenSealingKeys) throws {
    let values = keys.keys.map {
      (String($0.id), String(decoding: Hex.encode($0.bytes.span), as: UTF8.self))
    }
    let file = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    try Files.write(
      file.text(heading: "Sealing keys of device tokens. The last one seals new tokens."),
      to: sealingFile, isPrivate: true)
  }

  // MARK: The directory

  package func records() throws -> SectionFile {
    do {
      return try SectionFile(text: Files.readText(directoryFile))
    } catch let fault as SectionFile.Fault {
      throw DirectoryProblem("\(directoryFile), \(fault)")
    }
  }

  package func save(_ records: SectionFile) throws {
    try Files.write(
      records.text(
        heading: """
          The teams of this service, their keys, and their apps.
          A running service reloads this file when it changes.
          """),
      to: directoryFile, isPrivate: false)
  }

  /// Reads everything needed to authenticate and authorize connections and requests.
  package func trust(generation: UInt64, allowsES512: Bool) throws -> Trust {
    try requireProvisioned()
    return try trust(of: try records(), generation: generation, allowsES512: allowsES512)
  }

  /// The same, with `records` instead of the contents of the file.
  func trust(
    of records: SectionFile, generation: UInt64, allowsES512: Bool
  ) throws -> Trust {
    var verifiers: [ProviderKeyVerifier] = []
    var builder = try DirectoryReader(directory: self).read(
      records, verifiers: &verifiers, allowsES512: allowsES512)
    builder.revokedCertificates += try revokedPlaces()
    let providers = try authorities(.service)
    builder.authorities = providers.marks
    do {
      return Trust(
        directory: try builder.build(generation: generation, sha1: TopicHash.init(of:)),
        verifiers: verifiers, sealingKeys: try sealingKeys(), serviceAuthorities: providers,
        deviceAuthorities: try authorities(.devices),
        upstreams: try UpstreamReader(directory: self).read(records))
    } catch let faults as DirectoryFaults {
      throw DirectoryProblem("\(directoryFile): \(faults)")
    }
  }
}
