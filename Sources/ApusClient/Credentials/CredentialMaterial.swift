import ApusTLS
import ApusTrust

/// A credential with its files read.
enum CredentialMaterial {
  case token(keyPEM: [UInt8], keyID: String, teamID: String)
  case identity(TLSIdentity)
}

extension ClientConfiguration.Credential {
  /// The files that contain it.
  var paths: [String] {
    switch self {
    case .providerToken, .certificate, .pkcs12: []
    case .providerTokenFile(let path, _, _): [path]
    case .certificateFiles(let certificate, let key):
      certificate == key ? [certificate] : [certificate, key]
    case .pkcs12File(let path, _): [path]
    }
  }

  /// - Parameter files: The files at ``paths``.
  func material(_ files: [WatchedFile]) throws(ClientConfigurationError) -> CredentialMaterial {
    switch self {
    case .providerToken(let keyPEM, let keyID, let teamID):
      .token(keyPEM: keyPEM, keyID: keyID, teamID: teamID)
    case .providerTokenFile(_, let keyID, let teamID):
      .token(keyPEM: files[0].bytes, keyID: keyID, teamID: teamID)
    case .certificate(let certificatePEM, let keyPEM):
      .identity(TLSIdentity(certificateChainPEM: certificatePEM, privateKeyPEM: keyPEM))
    case .certificateFiles:
      .identity(
        TLSIdentity(
          certificateChainPEM: files[0].bytes, privateKeyPEM: files[files.count - 1].bytes))
    case .pkcs12(let file, let password): try Self.opened(file, password)
    case .pkcs12File(_, let password): try Self.opened(files[0].bytes, password)
    }
  }

  private static func opened(
    _ file: [UInt8], _ password: String
  ) throws(ClientConfigurationError) -> CredentialMaterial {
    do throws(TrustFault) {
      let file = try PKCS12(file.span, password: password)
      return .identity(
        TLSIdentity(certificateChainPEM: file.certificatePEM, privateKeyPEM: file.keyPEM))
    } catch {
      throw ClientConfigurationError(error.description)
    }
  }
}
