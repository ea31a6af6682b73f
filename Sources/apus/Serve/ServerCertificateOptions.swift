import ApusCommand
import ApusDirectory

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
    var findings: [DirectoryFinding] = []
    for (listener, files) in try serverCertificates().sorted(by: { $0.key < $1.key }) {
      do throws(DirectoryProblem) {
        findings.append(
          DirectoryFinding(
            "\(listener) presents", try ServerCertificates.examine(files),
            nowSeconds: Process.nowSeconds, renewal: "Renew \(files.certificate)."))
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
