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
  /// enrolment/renewed/<device>.pem               the certificates issued to the device by renewal
  /// ```
  ///
  /// The service and the commands both write here, each file once and as a whole: no lock is needed, and a crash leaves
  /// no partial change.
  package var enrolmentCodes: EnrolmentCodes { EnrolmentCodes(path: "\(path)/enrolment/codes") }
  package var pendingEnrolments: PendingEnrolments {
    PendingEnrolments(path: "\(path)/enrolment/pending")
  }
}
