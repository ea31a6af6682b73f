package import ApusDirectory
package import ApusModel
import ApusTrust

extension DataDirectory {
  /// The files of enrolment. They do not exist before the first code or request.
  ///
  /// ```
  /// enrolment/codes/<SHA-256 of the code>        an enrolment code: name, expiry, number of uses
  /// enrolment/codes/<SHA-256 of the code>.<n>    its n-th use: key, device, certificate
  /// enrolment/pending/<SHA-256 of the key>.conf  a pending request
  /// enrolment/pending/<SHA-256 of the key>.csr   the certificate request itself, as PEM
  /// enrolment/pending/<SHA-256 of the key>.crt   the certificate, if the operator approved the request
  /// enrolment/pending/<SHA-256 of the key>.rejected  exists if the operator rejected it
  /// enrolment/renewed/<device>.pem               the certificates of a device that renewed its own
  /// ```
  ///
  /// The service's enrolment thread and the commands both write here, under the lock of the directory. Each file is
  /// written once and whole, so a crash leaves no partial change. Reads and refusals wait for no lock.
  package var enrolmentCodes: EnrolmentCodes { EnrolmentCodes(directory: self) }
  package var pendingEnrolments: PendingEnrolments { PendingEnrolments(directory: self) }
}

extension DataDirectory {
  /// When the certificates of a device end, Unix seconds: those in the folder of issued certificates, and those that
  /// are known by its renewals.
  package func knownCertificateEnds(of device: DeviceID) throws -> [Int64] {
    let names = try Files.names(in: issuedPath).filter {
      $0.hasPrefix("device-\(device.text)-") && $0.hasSuffix(".crt")
    }
    let issued = try names.map { try Certificate(pem: Files.readText("\(issuedPath)/\($0)")) }
    return try issued.map(\.notAfter) + renewals.known(of: device).all.map(\.notAfter)
  }
}
