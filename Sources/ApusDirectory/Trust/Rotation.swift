import ApusCore
package import ApusModel
import ApusStore
package import ApusTrust

/// What can be replaced while the service runs. Whatever was issued before remains valid.
package enum Rotation: String, Sendable, CaseIterable {
  /// The service's own certificates, with new keys and the same names.
  case server
  /// The authority for servers and providers.
  case serviceAuthority = "service-authority"
  /// The authority for devices.
  case deviceAuthority = "device-authority"
  /// The key that seals device tokens.
  case sealingKey = "sealing-key"
}

extension DataDirectory {
  /// Replaces the service's own certificates, with new keys, issued by the current authority.
  ///
  /// - Parameter names: The names in the certificates; empty keeps the current ones.
  /// - Returns: The paths of the requests, if the authority's key is kept elsewhere; otherwise empty.
  @discardableResult
  package func rotateServer(names: [String] = [], nowSeconds: Int64) throws -> [String] {
    try changing {
      try requireProvisioned()
      let names =
        try names.isEmpty ? serverCertificate().serverNames : names
      guard canIssue(as: .service) else { return try requestServerCertificates(names: names) }
      try issueServerCertificates(
        names: names, by: authority(.service), chain: try serviceChain(), nowSeconds: nowSeconds)
      return []
    }
  }

  /// Adds a key for new device tokens. Tokens sealed with older keys remain valid; devices get new tokens when they
  /// connect.
  package func rotateSealingKey() throws -> UInt8 {
    try changing {
      try requireProvisioned()
      let keys = try sealingKeys().keys
      let used = Set(keys.map(\.id))
      guard let id = (1...UInt8.max).first(where: { !used.contains($0) }) else {
        throw DirectoryProblem(
          "\(sealingFile) has \(used.count) keys, the most that tokens can distinguish; "
            + "remove keys whose number no token of your providers begins with")
      }
      try save(TokenSealingKeys(keys + [.random(id: id)]))
      return id
    }
  }

  /// Adds an authority that issues from now on. The older ones remain trusted until
  /// ``finishRotation(of:locksOut:nowSeconds:)``.
  ///
  /// The older service authority signs the newer one, and the service presents that certificate with its new one.
  /// Providers and devices that know only the older authority can still connect, and have time to get the new one.
  ///
  /// - Parameters:
  ///   - outside: An authority that the operator supplies; nil creates one. Clients must know a supplied service
  ///     authority beforehand, because the older one does not sign it.
  ///   - name: The common name of a created authority, at most 64 characters; nil for the older one's with the next
  ///     number.
  package func rotateAuthority(
    _ which: Authority, to outside: OutsideAuthority? = nil, named name: String? = nil,
    nowSeconds: Int64
  ) throws -> Certificate {
    try changing {
      try requireProvisioned()
      let trusted = try certificates(of: which)
      // Before the change: a certificate issued in between counts as issued by the older authority.
      if which == .devices {
        try Files.write("\(nowSeconds)\n", to: rotationTimeFile, isPrivate: false)
      }
      if let outside {
        try adopt(outside, as: which, besides: trusted, nowSeconds: nowSeconds)
        if which == .service { try rotateServer(nowSeconds: nowSeconds) }
        return try issuingCertificate(of: which)
      }
      guard canIssue(as: which), which == .devices || !Files.exists(aboveFile) else {
        throw DirectoryProblem(
          "the \(which.rawValue) authority is your own: give its successor with --authority"
        )
      }
      let old = try authority(which)
      let successor = Self.successorName(of: old.certificate.subject.commonName ?? which.title)
      let new = try CertificateAuthority.create(
        commonName: name ?? successor,
        validity: Validity(now: nowSeconds, days: ValidityDays.authority))
      if which == .service {
        let link = try old.crossSign(new, validity: Validity(now: nowSeconds, days: 825))
        try Files.write(link.pem, to: linkFile, isPrivate: false)
      }
      // Write the certificates first: until the key is replaced, the old key still matches one of them.
      try Files.write(
        ([new.certificate] + trusted).map(\.pem).joined(), to: authorityCertificate(which),
        isPrivate: false)
      try Files.write(new.key.pkcs8PEM, to: authorityKey(which), isPrivate: true)
      if which == .service { try rotateServer(nowSeconds: nowSeconds) }
      return new.certificate
    }
  }

  /// The result of ``finishRotation(of:locksOut:nowSeconds:)``.
  package struct FinishedRotation: Sendable {
    /// The authorities that are no longer trusted.
    package var dropped: [Certificate]
    /// The known devices that can no longer connect.
    package var lockedOut: [DeviceID]
  }

  /// Stops trusting the older authorities and everything that they issued.
  ///
  /// - Parameter locksOut: Whether to lock out known devices that have no certificate of the new authority yet. If
  ///   false and there are such devices, throws ``DevicesWithoutCertificate``.
  package func finishRotation(
    of which: Authority, locksOut: Bool = false, nowSeconds: Int64
  ) throws -> FinishedRotation {
    try requireProvisioned()
    return try changing {
      let current = try issuingCertificate(of: which)
      let older = try certificates(of: which).filter { $0 != current }
      guard !older.isEmpty else {
        throw DirectoryProblem("\(authorityCertificate(which)) has only one authority")
      }
      let devices = which == .devices ? try devicesOfOlderAuthority() : []
      guard devices.isEmpty || locksOut else { throw DevicesWithoutCertificate(devices: devices) }
      if which == .service {
        Files.remove(linkFile)
        try rotateServer(nowSeconds: nowSeconds)
      }
      try Files.write(current.pem, to: authorityCertificate(which), isPrivate: false)
      if which == .devices { Files.remove(rotationTimeFile) }
      return FinishedRotation(dropped: older, lockedOut: devices)
    }
  }

  /// Contains the time from which the current device authority issues, Unix seconds. It exists while older ones are
  /// trusted too.
  private var rotationTimeFile: String { "\(path)/authority/devices.since" }

  /// The devices whose newest known certificate is of an authority that ``finishRotation(of:locksOut:nowSeconds:)``
  /// drops, so that they could no longer connect. The service may be running.
  ///
  /// The store has the start of validity of each device's newest certificate: an hour before its issue, if issued here.
  package func devicesOfOlderAuthority() throws -> [DeviceID] {
    let trusted = try certificates(of: .devices)
    guard trusted.count > 1, try storePlace() != nil else { return [] }
    let text = Files.exists(rotationTimeFile) ? try Files.readText(rotationTimeFile) : ""
    let hour: Int64 = 3600
    var since = try issuingCertificate(of: .devices).notBefore + hour
    if let written = Int64(text.prefix { $0.isNumber }) { since = written }
    let retired = try trust(generation: 1, allowsES512: false).directory
    var devices: Set<DeviceID> = []
    try followStore().scanDevices { device, record in
      // Also counts a certificate that the new authority issued in the same second: one too many is safer.
      if record.issuedSeconds <= since - hour, retired.retiredMilliseconds(of: device) == nil {
        devices.insert(device)
      }
    }
    return devices.sorted { $0.text < $1.text }
  }

  /// "Apus device authority" is followed by "Apus device authority 2": two authorities with the same name would be
  /// confused.
  private static func successorName(of name: String) -> String {
    guard let space = name.lastIndex(of: " "),
      let number = Int(name[name.index(after: space)...])
    else { return name + " 2" }
    return "\(name[..<space]) \(number + 1)"
  }
}

/// Finishing the rotation would lock out devices, which needs explicit confirmation.
package struct DevicesWithoutCertificate: Error, CustomStringConvertible {
  package var devices: [DeviceID]

  package var description: String {
    let some = devices.prefix(5).map(\.text).joined(separator: ", ")
    return "\(counted(devices.count, "known device")) could no longer connect: "
      + some + (devices.count > 5 ? " …" : "")
  }

  /// What to do instead.
  package static let remedy =
    "They get a certificate of the new authority when they connect to the running service. Wait for "
    + "them, or retire those that will not return"
}

extension DataDirectory.Authority {
  var title: String {
    switch self {
    case .service: "Apus service authority"
    case .devices: "Apus device authority"
    case .nodes: "Apus node authority"
    }
  }
}
