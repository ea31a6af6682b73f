import ApusModel
package import ApusTLS
import ApusTrust
import ApusWire
import Glibc

/// A device's certificate and key.
public struct DeviceIdentity: Sendable, Hashable {
  /// The device's own certificate, followed by the certificates up to its authority.
  public var certificatePEM: String
  /// The certificate's private key, not encrypted.
  public var keyPEM: String

  public init(certificatePEM: String, keyPEM: String) {
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
  }

  /// The last second of the certificate's validity, Unix time; nil if the certificate cannot be read.
  public var expirationSeconds: Int64? { (try? Certificate(pem: certificatePEM))?.notAfter }

  /// The service's id for the device, 16 hexadecimal digits; nil if the certificate cannot be read.
  public var deviceID: String? {
    guard let certificate = try? Certificate(pem: certificatePEM) else { return nil }
    return (try? DeviceCertificate(certificate))?.deviceID.text
  }

  /// A new ECDSA key on P-256, as PEM.
  public static func makeKey() throws -> String {
    do {
      return try PrivateKey.generateP256().pkcs8PEM
    } catch {
      throw DeviceError(.badConfiguration, "\(error)")
    }
  }

  /// SHA-256 of a key's public half, 64 digits. The operator of the service sees it for a device that waits for
  /// approval, and can tell the device from an impostor by it.
  public static func fingerprint(ofKey keyPEM: String) throws -> String {
    do {
      return try PrivateKey(pem: keyPEM).publicKey.spkiSHA256.hex
    } catch {
      throw DeviceError(.badConfiguration, "\(error)")
    }
  }

  /// The identity from issued certificates and a key.
  ///
  /// - Throws: If the certificate is not for this key, for example.
  init(certificates: [[UInt8]], key: PrivateKey) throws(TrustFault) {
    var pem = ""
    for (index, der) in certificates.enumerated() {
      let certificate = try Certificate(der: der.span)
      if index == 0, certificate.spkiDER != key.publicKey.spkiDER { throw .keyMismatch }
      pem += certificate.pem
    }
    self.init(certificatePEM: pem, keyPEM: key.pkcs8PEM)
  }

  var tls: TLSIdentity {
    TLSIdentity(
      certificateChainPEM: Array(certificatePEM.utf8), privateKeyPEM: Array(keyPEM.utf8))
  }
}

extension DeviceIdentity: CustomStringConvertible {
  /// The device, and the end of its certificate; never the key.
  public var description: String {
    guard let deviceID, let expirationSeconds else { return "an unreadable device certificate" }
    return "device \(deviceID), certificate valid until \(expirationSeconds) (Unix seconds)"
  }
}

/// A device's identity in one file, so that key and certificate always match: certificates and key as PEM, with mode
/// 0600.
///
/// Before the device has a certificate, the file holds only the key. A device that restarts while it waits then
/// continues with the same key, and is the same device to the service.
public struct DeviceIdentityFile: Sendable, Hashable {
  public var path: String

  public init(path: String) { self.path = path }

  /// The contents: a key, and a certificate if there is one; nil if the file does not exist.
  ///
  /// - Throws: `DeviceError` if it cannot be read.
  public func read() throws -> (keyPEM: String, certificatePEM: String?)? {
    guard let text = try content() else { return nil }
    guard let key = Self.block("PRIVATE KEY", of: text[...])?.text else {
      throw DeviceError(.badConfiguration, "\(path) contains no private key")
    }
    var certificates = ""
    var rest = text[...]
    while let (block, behind) = Self.block("CERTIFICATE", of: rest) {
      certificates += block
      rest = behind
    }
    return (key, certificates.isEmpty ? nil : certificates)
  }

  /// Replaces the contents atomically and durably: after a crash the file has the old or the new identity.
  public func write(_ identity: DeviceIdentity) throws {
    try write(identity.certificatePEM + identity.keyPEM)
  }

  /// The same for a key without a certificate.
  public func write(keyPEM: String) throws { try write(keyPEM) }

  private static func block(
    _ label: String, of text: Substring
  ) -> (text: String, rest: Substring)? {
    let end = "-----END \(label)-----"
    guard let first = text.firstRange(of: "-----BEGIN \(label)-----"),
      let last = text[first.upperBound...].firstRange(of: end)
    else { return nil }
    return (text[first.lowerBound..<last.upperBound] + "\n", text[last.upperBound...])
  }

  // MARK: The file

  private func content() throws -> String? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw failure("read")
    }
    defer { close(descriptor) }
    // Far above any identity.
    var bytes = [UInt8](repeating: 0, count: 65_536)
    var count = 0
    while count < bytes.count {
      let got = unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress?.advanced(by: count), buffer.count - count)
      }
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { throw failure("read") }
      if got == 0 { return String(decoding: bytes[..<count], as: UTF8.self) }
      count += got
    }
    throw DeviceError(.badConfiguration, "\(path) is too long to be an identity")
  }

  private func write(_ text: String) throws {
    let temporary = "\(path).new"
    unsafe unlink(temporary)
    let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure("create") }
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { buffer in
        unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      rest = rest.dropFirst(count)
    }
    let isWritten = rest.isEmpty && fsync(descriptor) == 0
    let failure = failure("write")
    close(descriptor)
    guard isWritten, unsafe rename(temporary, path) == 0 else {
      unsafe unlink(temporary)
      throw failure
    }
    syncDirectory()
  }

  /// Without this, a power loss could restore the old file. That is harmless, except for a key written for the first
  /// time.
  private func syncDirectory() {
    let directory = path.lastIndex(of: "/").map {
      $0 == path.startIndex ? "/" : String(path[..<$0])
    }
    let descriptor = unsafe open(directory ?? ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    fsync(descriptor)
    close(descriptor)
  }

  private func failure(_ operation: String) -> DeviceError {
    DeviceError(
      .badConfiguration, "cannot \(operation) \(path): \(unsafe String(cString: strerror(errno)))")
  }
}

extension StringProtocol {
  /// The range of the first occurrence of `text`.
  fileprivate func firstRange(of text: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(text) {
        return start..<index(start, offsetBy: text.count)
      }
      start = index(after: start)
    }
    return nil
  }
}

extension DeviceConfiguration {
  /// The shared context of connections with an identity.
  package func context(_ identity: DeviceIdentity?) throws(TLSError) -> TLSContext {
    try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: authorityPEM.map { .authorities(PEM: Array($0.utf8)) } ?? .system,
        identity: identity?.tls,
        applicationProtocols: ["\(PushDeviceCore.dialect.name)"], serverName: serverName ?? host))
  }
}
