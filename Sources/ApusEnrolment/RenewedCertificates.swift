import ApusDirectory
import ApusModel
import ApusTrust

/// The certificates that devices were given by renewal and that may still be valid, so that each has two at most.
///
/// A file for each device, PEM, the oldest first. Only the enrolment thread writes here, so what it has read stays
/// true. It takes the lock of the data directory, so nothing changes while another process holds that lock.
struct RenewedCertificates: Sendable {
  let directory: DataDirectory

  private var path: String { "\(directory.path)/enrolment/renewed" }

  private func file(_ device: DeviceID) -> String { "\(path)/\(device.text).pem" }

  func certificates(of device: DeviceID) throws -> [Certificate] {
    let file = file(device)
    guard Files.exists(file) else { return [] }
    return try Certificate.all(pem: Files.readText(file))
  }

  /// Durable when it returns.
  func keep(_ certificates: [Certificate], of device: DeviceID) throws {
    try directory.changing {
      try Files.makeDirectory(path)
      try Files.write(
        certificates.map(\.pem).joined(), to: file(device), isPrivate: true)
    }
  }

  /// Removes the files to which nothing was added for as long as a certificate is valid.
  func prune(nowSeconds: Int64, days: Int) throws {
    for name in try Files.names(in: path) {
      let file = "\(path)/\(name)"
      guard let changed = Files.changedSeconds(file), changed + Int64(days) * 86_400 < nowSeconds
      else { continue }
      try directory.changing { try DurableFile.remove(file) }
    }
  }
}

extension DataDirectory {
  var renewals: RenewedCertificates { RenewedCertificates(directory: self) }
}

extension Trust {
  /// Whether the authority that issues now issued it.
  func isOfNewestDeviceAuthority(_ certificate: Certificate) -> Bool {
    deviceAuthorities.issuers(of: certificate).first == deviceAuthorities.marks.first
  }
}
