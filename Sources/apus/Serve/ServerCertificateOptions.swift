import ApusCommand
import ApusDirectory
import ApusLog
import ApusTrust

extension Invocation {
  /// The files of `--server-certificate`, by the names of the listeners.
  func serverCertificates() throws(CommandFailure) -> [String: IdentityFiles] {
    var files: [String: IdentityFiles] = [:]
    for given in all(ApusOptions.serverCertificate) {
      let pair = IdentityFiles(certificate: given.chainFile, key: given.keyFile)
      guard files.updateValue(pair, forKey: given.listener) == nil else {
        throw failure(
          about: ApusOptions.serverCertificate, "\(given.listener) has two certificates",
          remedy: "Give one for each listener.")
      }
    }
    return files
  }

  /// What `apus doctor` says of these files.
  func serverCertificateFindings() throws(CommandFailure) -> [DirectoryFinding] {
    let now = Process.nowSeconds
    var findings: [DirectoryFinding] = []
    for (listener, files) in try serverCertificates().sorted(by: { $0.key < $1.key }) {
      do throws(DirectoryProblem) {
        let certificate = try ServerCertificates.examine(files)
        let names = certificate.serverNames.prefix(4).joined(separator: ", ")
        let end = Log.timestamp(certificate.notAfter * 1000).prefix(10)
        let text = "\(listener) presents a certificate for \(names), until \(end)"
        guard certificate.isValid(now: now) else {
          findings.append(
            DirectoryFinding(
              "server", .bad, "\(text), which is not valid now (\(files.certificate))",
              "Renew it, or correct this machine's clock: it says \(Log.timestamp(now * 1000))."))
          continue
        }
        let expiresSoon = certificate.notAfter - now < ExpiryWatch.horizonSeconds
        findings.append(DirectoryFinding("server", expiresSoon ? .notable : .good, text))
      } catch {
        findings.append(
          DirectoryFinding(
            "server", .bad, "\(listener): \(error)",
            "Correct the file, or --server-certificate. A running service keeps to the last good pair."
          ))
      }
    }
    return findings
  }
}
