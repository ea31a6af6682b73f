import ApusCommand

extension Invocation {
  /// Certificate and key as PEM. The key comes from the certificate's file if no key file is given and the file has
  /// both, like the .pem files of `apus cert`.
  func certificateAndKey(
    _ certificate: Option<String>, _ key: Option<String>
  ) throws(CommandFailure) -> (certificate: String, key: String) {
    let text = try Process.text(of: try require(certificate), for: certificate, self)
    if !isGiven(key), text.contains("PRIVATE KEY-----") { return (text, text) }
    return (text, try Process.text(of: try require(key), for: key, self))
  }
}
