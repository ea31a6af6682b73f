import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// The certificates of devices that renewed theirs, so that each device has two good ones at most.
///
/// A file for each device, which begins with a line for each certificate that the device presented when it asked for
/// another one: the service does not keep its bytes. The certificates issued by renewal follow as PEM, the oldest
/// first. The enrolment thread and the operator's approvals write here, under the lock of the data directory.
struct RenewedCertificates: Sendable {
  let directory: DataDirectory

  private var path: String { "\(directory.path)/enrolment/renewed" }

  private func file(_ device: DeviceID) -> String { "\(path)/\(device.text).pem" }

  /// What is known of the device's certificates.
  func known(of device: DeviceID) throws -> KnownCertificates {
    let file = file(device)
    guard Files.exists(file) else { return KnownCertificates() }
    return try KnownCertificates(text: Files.readText(file), file: file)
  }

  /// Remembers the certificate that the device presented. Durable when it returns.
  func remember(
    _ presented: PresentedRecord, of device: DeviceID, trust: Trust, nowSeconds: Int64
  ) throws {
    guard try !known(of: device).include(presented.names.fingerprint) else { return }
    try directory.changing {
      var known = try known(of: device).good(trust, nowSeconds: nowSeconds)
      known.remember(presented)
      try write(known, of: device)
    }
  }

  /// Adds a certificate before it is handed out. Durable when it returns. False, and nothing is changed, if the device
  /// would have too many good ones.
  ///
  /// - Parameter presented: The certificate that the device presented; nil if it was noted.
  func add(
    _ certificate: Certificate, presented: PresentedRecord? = nil, of device: DeviceID,
    trust: Trust, nowSeconds: Int64
  ) throws -> Bool {
    try directory.changing {
      // Read under the lock, because somebody else may have added one.
      var known = try known(of: device).good(trust, nowSeconds: nowSeconds)
      if let presented { known.remember(presented) }
      if known.include(CertificateNames(certificate).fingerprint) { return true }
      guard known.count < Limits.certificatesPerDevice else { return false }
      known.issued.append(certificate)
      try write(known, of: device)
      return true
    }
  }

  private func write(_ known: KnownCertificates, of device: DeviceID) throws {
    try Files.makeDirectory(path)
    try Files.write(known.text, to: file(device), isPrivate: true)
  }

  /// Removes the files whose certificates have all expired.
  func prune(nowSeconds: Int64, days: Int) throws {
    for name in try Files.names(in: path) {
      let file = "\(path)/\(name)"
      guard isOutdated(file, nowSeconds: nowSeconds, days: days) else { continue }
      try directory.changing {
        guard isOutdated(file, nowSeconds: nowSeconds, days: days) else { return }
        try DurableFile.remove(file)
      }
    }
  }

  /// Most files need not be read: nothing was added to them for as long as a certificate is valid. Others may have one
  /// with a longer life, from an authority elsewhere or from before the option for that time was changed.
  private func isOutdated(_ file: String, nowSeconds: Int64, days: Int) -> Bool {
    guard let changed = Files.changedSeconds(file), changed + Int64(days) * 86_400 < nowSeconds,
      let text = try? Files.readText(file)
    else { return false }
    guard let known = try? KnownCertificates(text: text, file: file) else { return true }
    return known.all.allSatisfy { $0.notAfter < nowSeconds }
  }
}

/// A certificate that a device presented when it asked for another one.
struct PresentedRecord: Sendable, Hashable {
  var names: CertificateNames
  /// Unix seconds.
  var notAfter: Int64
  /// The marks of the authorities that may have issued it.
  var issuers: [UInt64]

  init(_ renewal: EnrolmentQuery.Renewal, _ trust: Trust) {
    names = renewal.names
    notAfter = renewal.certificate.notAfter
    let marks = trust.deviceAuthorities.marks
    issuers = Array(renewal.isOfOlderAuthority ? marks.dropFirst() : marks.prefix(1))
  }

  /// Nil if the line is malformed.
  init?(words: [String]) {
    guard words.count >= 3, let fingerprint = Self.fingerprint(words[0]),
      let place = Self.fingerprint(words[1]), let notAfter = Int64(words[2])
    else { return nil }
    names = CertificateNames(fingerprint: fingerprint, place: place)
    self.notAfter = notAfter
    issuers = words[3...].compactMap { UInt64($0, radix: 16) }
    guard issuers.count == words.count - 3 else { return nil }
  }

  private static func fingerprint(_ text: String) -> CertificateFingerprint? {
    Hex.decode(Array(text.utf8).span).flatMap { CertificateFingerprint($0.span) }
  }

  var text: String {
    let words =
      [names.fingerprint.hex, names.place.hex, String(notAfter)]
      + issuers.map { String($0, radix: 16) }
    return words.joined(separator: " ")
  }
}

/// The certificates of a device that are known by its renewals.
struct KnownCertificates: Sendable {
  private(set) var presented: [PresentedRecord] = []
  /// The oldest first.
  var issued: [Certificate] = []

  init() {}

  init(text: String, file: String) throws {
    let pem = text.firstRange(of: "-----BEGIN")?.lowerBound ?? text.endIndex
    let head = try SectionFile(text: String(text[..<pem]))
    presented = try head.sections.flatMap(\.values).map { entry in
      guard entry.key == Self.presentedKey,
        let record = PresentedRecord(words: entry.value.split(separator: " ").map(String.init))
      else { throw DirectoryProblem("\(file): malformed record of a certificate") }
      return record
    }
    if pem != text.endIndex { issued = try Certificate.all(pem: String(text[pem...])) }
  }

  private static let presentedKey = "presented"

  var text: String {
    let values = presented.map { (Self.presentedKey, $0.text) }
    let head = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    return head.text(heading: "SHA-256, SHA-256 of issuer and serial, end, authorities.")
      + issued.map(\.pem).joined()
  }

  /// Those presented first.
  var all: [(fingerprint: CertificateFingerprint, notAfter: Int64)] {
    presented.map { ($0.names.fingerprint, $0.notAfter) }
      + issued.map { (CertificateNames($0).fingerprint, $0.notAfter) }
  }

  var count: Int { presented.count + issued.count }

  func include(_ fingerprint: CertificateFingerprint) -> Bool {
    all.contains { $0.fingerprint == fingerprint }
  }

  mutating func remember(_ record: PresentedRecord) {
    if !include(record.names.fingerprint) { presented.append(record) }
  }

  /// Those with which the device can connect, unless it is retired.
  func good(_ trust: Trust, nowSeconds: Int64) -> KnownCertificates {
    var good = self
    good.presented.removeAll { record in
      record.notAfter <= nowSeconds || record.names.areRevoked(in: trust.directory)
        || !record.issuers.contains { trust.deviceAuthorities.contain($0) }
    }
    good.issued.removeAll { certificate in
      certificate.notAfter <= nowSeconds
        || CertificateNames(certificate).areRevoked(in: trust.directory)
        || !trust.deviceAuthorities.certificates.contains { certificate.names($0) }
    }
    return good
  }
}

extension CertificateFingerprint {
  /// 64 hexadecimal digits.
  var hex: String { String(decoding: Hex.encode(bytes.span), as: UTF8.self) }
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
