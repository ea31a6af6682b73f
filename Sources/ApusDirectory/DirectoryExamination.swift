import ApusCore
import ApusLog
import ApusModel
package import ApusTrust
import Glibc

/// What one check of a data directory found.
package struct DirectoryFinding: Sendable, Hashable {
  package enum State: String, Sendable {
    case good = "ok"
    /// Works, and needs attention.
    case notable = "note"
    case bad
  }

  /// What was checked, in one or two words.
  package var check: String
  package var state: State
  package var text: String
  /// What to do; empty unless it is bad.
  package var remedy: String

  package init(_ check: String, _ state: State, _ text: String, _ remedy: String = "") {
    (self.check, self.state, self.text, self.remedy) = (check, state, text, remedy)
  }

  /// Whether a server's certificate is valid, and how long.
  ///
  /// - Parameters:
  ///   - who: Who presents it: "the service presents".
  ///   - renewal: How it is renewed.
  package init(_ who: String, _ certificate: Certificate, nowSeconds: Int64, renewal: String) {
    let names = certificate.serverNames.prefix(4).joined(separator: ", ")
    let end = Log.timestamp(certificate.notAfter * 1000).prefix(10)
    let subject = "\(who) a certificate for \(names)"
    if certificate.notAfter < nowSeconds {
      self.init("server", .bad, "\(subject), which expired on \(end)", renewal)
    } else if !certificate.isValid(now: nowSeconds) {
      self.init(
        "server", .bad,
        "\(subject), which is not valid before \(Log.timestamp(certificate.notBefore * 1000))",
        "Is this machine's clock right? It says \(Log.timestamp(nowSeconds * 1000)).")
    } else {
      let expiresSoon = certificate.notAfter - nowSeconds < ExpiryWatch.horizonSeconds
      self.init("server", expiresSoon ? .notable : .good, "\(subject), until \(end)")
    }
  }
}

/// Finds what keeps a service from running with its data directory, as far as files tell. Changes nothing.
package struct DirectoryExamination {
  private let directory: DataDirectory
  private let nowSeconds: Int64

  /// Below this much space the store soon takes no writes.
  private static let fullBytes: UInt64 = 64 << 20
  private static let scarceBytes: UInt64 = 1 << 30

  package init(_ directory: DataDirectory, nowSeconds: Int64) {
    self.directory = directory
    self.nowSeconds = nowSeconds
  }

  /// In the order in which a service needs what they are about.
  package func findings() -> [DirectoryFinding] {
    [files(), modes(), trust(), labels(), certificate(), upstreams(), disk()].flatMap(\.self)
  }

  // MARK: Files

  private func files() -> [DirectoryFinding] {
    let server = directory.serverFiles
    let needed: [(String, String)] = [
      (
        directory.sealingFile, "Restore it from a backup: no other key opens the tokens of devices."
      ),
      (directory.authorityCertificate(.service), "Restore it from a backup."),
      (directory.authorityCertificate(.devices), "Restore it from a backup."),
      (server.certificate, "`apus rotate server` issues another one."),
      (server.key, "`apus rotate server` makes another key, with a certificate for it."),
    ]
    let missing = needed.filter { !Files.exists($0.0) }
    guard missing.isEmpty else {
      return missing.map { DirectoryFinding("files", .bad, "\($0.0) does not exist", $0.1) }
    }
    return [DirectoryFinding("files", .good, "\(directory.path) has all that a service needs")]
  }

  /// The service reads its files as the owner of the directory, and nobody else may read keys.
  private func modes() -> [DirectoryFinding] {
    guard let owner = Self.status(directory.path)?.owner else { return [] }
    var findings: [DirectoryFinding] = []
    for path in privateFiles {
      guard let status = Self.status(path) else { continue }
      if status.owner != owner {
        findings.append(
          DirectoryFinding(
            "modes", .bad,
            "\(path) belongs to user \(status.owner), not to \(owner) as the directory",
            "Run `chown -R --reference=\(directory.path) \(directory.path)`, "
              + "and commands as the service's user."))
      } else if status.mode & 0o077 != 0 {
        let mode = String(status.mode & 0o777, radix: 8)
        findings.append(
          DirectoryFinding(
            "modes", .bad, "others can read \(path) (mode \(mode))",
            "Run `chmod 600 \(path)`. If others use this machine, replace the key: `apus rotate`."))
      } else if status.mode & 0o400 == 0 {
        findings.append(
          DirectoryFinding(
            "modes", .bad, "its owner cannot read \(path)", "Run `chmod 600 \(path)`."))
      }
    }
    guard findings.isEmpty else { return findings }
    return [DirectoryFinding("modes", .good, "only the service's user can read its keys")]
  }

  private var privateFiles: [String] {
    func names(_ folder: String, _ suffixes: [String]) -> [String] {
      let path = "\(directory.path)/\(folder)"
      let found = ((try? Files.names(in: path)) ?? []).sorted()
      return found.filter { name in suffixes.contains(where: name.hasSuffix) }
        .map { "\(path)/\($0)" }
    }
    return [directory.sealingFile, directory.ticketFile] + names("authority", [".key"])
      + names("server", [".key"]) + names("keys", [".p8"])
      + names("certificates", [".key", ".pem"])
      + names("upstreams", UpstreamFiles.Part.allCases.filter(\.isPrivate).map(\.rawValue))
  }

  private static func status(_ path: String) -> (owner: UInt32, mode: UInt32)? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    return (status.st_uid, status.st_mode)
  }

  // MARK: Contents

  private func trust() -> [DirectoryFinding] {
    do {
      let trust = try directory.trust(generation: 1, allowsES512: true).directory
      return [
        DirectoryFinding(
          "directory", .good,
          [
            counted(trust.teams.count, "team"), counted(trust.keys.count, "key"),
            counted(trust.apps.count, "app"),
          ].joined(separator: ", "))
      ]
    } catch {
      return [
        DirectoryFinding(
          "directory", .bad, "\(error)",
          "A running service keeps to what it has read before. Correct the file; it is read again at once."
        )
      ]
    }
  }

  private func labels() -> [DirectoryFinding] {
    guard Files.exists(directory.labelFile) else { return [] }
    let register: LabelRegister
    do {
      register = try LabelRegister(reading: directory)
    } catch {
      return [
        DirectoryFinding(
          "labels", .bad, "\(error)",
          "The service runs without names and tags of devices. Correct the file's owner or mode.")
      ]
    }
    let lines = register.malformedLines
    guard !lines.isEmpty else {
      let count = register.index.deviceCount
      return [DirectoryFinding("labels", .good, "\(counted(count, "device")) with a name or tags")]
    }
    let shown = lines.prefix(10).map(String.init).joined(separator: ", ")
    let more = lines.count > 10 ? " and \(lines.count - 10) more" : ""
    return [
      DirectoryFinding(
        "labels", .bad,
        "\(directory.labelFile) has malformed lines, which count for nothing: \(shown)\(more)",
        "Delete them, and name the devices again: `apus device set`.")
    ]
  }

  private func certificate() -> [DirectoryFinding] {
    let files = directory.serverFiles
    guard files.exist else { return [] }
    let certificate: Certificate
    do {
      certificate = try directory.serverCertificate()
      let key = try PrivateKey(pem: Files.readText(files.key))
      guard certificate.spkiDER == key.publicKey.spkiDER else {
        return [bad("\(files.key) is not the key of \(files.certificate)")]
      }
    } catch {
      return [bad("the server's certificate or its key cannot be read: \(error)")]
    }
    return [
      DirectoryFinding(
        "the service presents", certificate, nowSeconds: nowSeconds, renewal: Self.renewal)
    ]
  }

  private static let renewal = "`apus rotate server` makes a new key and certificate."

  private func bad(_ text: String) -> DirectoryFinding {
    DirectoryFinding("server", .bad, text, Self.renewal)
  }

  /// Whether the certificates shown upstream are valid, and how long.
  private func upstreams() -> [DirectoryFinding] {
    directory.upstreamCertificates().map { named in
      let end = Log.timestamp(named.certificate.notAfter * 1000).prefix(10)
      let subject = "the certificate for the upstream of \(named.name)"
      let left = named.certificate.notAfter - nowSeconds
      guard left < 0 else {
        let state: DirectoryFinding.State = left < ExpiryWatch.horizonSeconds ? .notable : .good
        return DirectoryFinding("upstream", state, "\(subject) is valid until \(end)")
      }
      return DirectoryFinding(
        "upstream", .bad, "\(subject) expired on \(end)",
        "Get another one upstream, and run "
          + "`apus app --change \(named.name) --upstream-certificate FILE`.")
    }
  }

  // MARK: The disk

  private func disk() -> [DirectoryFinding] {
    var status = statvfs()
    guard unsafe statvfs(directory.path, &status) == 0 else { return [] }
    return [Self.disk(freeBytes: UInt64(status.f_bavail) * UInt64(status.f_frsize), directory.path)]
  }

  static func disk(freeBytes: UInt64, _ path: String) -> DirectoryFinding {
    let text = "\(freeBytes >> 20) MB are free for \(path)"
    if freeBytes < fullBytes {
      return DirectoryFinding(
        "disk", .bad, text, "Free space: without it, providers get 503 for what must be stored.")
    }
    return DirectoryFinding("disk", freeBytes < scarceBytes ? .notable : .good, text)
  }
}
