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
  /// The service's enrolment thread and the commands both write here, under the lock of the directory. Each file is
  /// written once and whole, so a crash leaves no half of an act. What is only read, or refused, waits for no lock.
  package var enrolmentCodes: EnrolmentCodes { EnrolmentCodes(directory: self) }
  package var pendingEnrolments: PendingEnrolments { PendingEnrolments(directory: self) }
}
