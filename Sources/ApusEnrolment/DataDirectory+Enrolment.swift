package import ApusDirectory

extension DataDirectory {
  /// What enrolment keeps. Not there before the first code or request.
  ///
  /// ```
  /// enrolment/codes/<SHA-256 of the code>        a one-time code: name, until when, for how many devices
  /// enrolment/codes/<SHA-256 of the code>.<n>    its n-th use: by which key, for which device, the certificate
  /// enrolment/pending/<SHA-256 of the key>.conf  a request that waits for the operator
  /// enrolment/pending/<SHA-256 of the key>.csr   the certificate request itself, as PEM
  /// enrolment/pending/<SHA-256 of the key>.crt   the operator approved: the certificate
  /// enrolment/pending/<SHA-256 of the key>.rejected
  /// enrolment/renewed/<device>.pem               the certificates that the device was given by renewal
  /// ```
  ///
  /// The service and the command line both write here, each file once and whole: nobody waits for a lock, and a crash
  /// leaves no half of an act.
  package var enrolmentCodes: EnrolmentCodes { EnrolmentCodes(path: "\(path)/enrolment/codes") }
  package var pendingEnrolments: PendingEnrolments {
    PendingEnrolments(path: "\(path)/enrolment/pending")
  }
}
