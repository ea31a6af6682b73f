package import ApusDirectory

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
