import ApusTrust

/// What the files of an upstream must contain. Errors name the file as the caller calls it.
enum UpstreamCheck {
  /// A provider key: ECDSA on P-256, because provider tokens are signed with ES256.
  @discardableResult
  static func key(_ pem: String, called name: String) throws(DirectoryProblem) -> PrivateKey {
    let key = try privateKey(pem, called: name)
    guard key.publicKey.kind == .p256 else {
      throw DirectoryProblem(
        "\(name) is not ECDSA on P-256, as provider tokens need; give the .p8 file of a push key")
    }
    return key
  }

  /// A certificate, followed by those up to its authority, and its key.
  @discardableResult
  static func identity(
    _ pem: String, called name: String, key keyPEM: String, called keyName: String
  ) throws(DirectoryProblem) -> (certificates: [Certificate], key: PrivateKey) {
    let certificates = try certificates(pem, called: name)
    let key = try privateKey(keyPEM, called: keyName)
    guard key.publicKey.kind.isStrong else {
      throw DirectoryProblem("\(keyName) cannot be used: \(TrustFault.unsupportedKey)")
    }
    guard key.publicKey.spkiDER == certificates[0].spkiDER else {
      throw DirectoryProblem(
        "\(keyName) is not the key of the first certificate in \(name); give the push certificate, "
          + "followed by those above it, and its key")
    }
    return (certificates, key)
  }

  /// - Returns: At least one.
  @discardableResult
  static func certificates(
    _ pem: String, called name: String
  ) throws(DirectoryProblem) -> [Certificate] {
    do throws(TrustFault) { return try Certificate.all(pem: pem) } catch {
      throw DirectoryProblem("no certificate can be read in \(name): \(error)")
    }
  }

  /// The first line of a file with a password.
  static func password(_ text: String, called name: String) throws(DirectoryProblem) -> String {
    let lines = text.split(whereSeparator: \.isNewline)
    guard let line = lines.first, lines.count == 1,
      line.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7f })
    else {
      throw DirectoryProblem(
        "\(name) must be a single line with the password, without control characters")
    }
    return String(line)
  }

  private static func privateKey(
    _ pem: String, called name: String
  ) throws(DirectoryProblem) -> PrivateKey {
    do throws(TrustFault) { return try PrivateKey(pem: pem) } catch {
      throw DirectoryProblem("no key can be read in \(name): \(error)")
    }
  }
}
