/// A listener, and the certificate that it presents in place of the service's own.
package struct ServerCertificate: Sendable, Hashable {
  /// The listener's option without `--` and `-listen`; `admin` stands for the console as well.
  package var listener: String
  /// The file of the server's certificate, followed by those above it.
  package var chainFile: String
  package var keyFile: String
}

extension ValueSyntax where Value == ServerCertificate {
  /// `LISTENER=CHAIN:KEY`, because commas separate several values in environment and file.
  ///
  /// - Parameter listeners: The names that there are.
  static func serverCertificate(_ listeners: [String]) -> ValueSyntax {
    ValueSyntax("LISTENER=CHAIN:KEY", completion: .words(listeners.map { "\($0)=" })) {
      text throws(ValueProblem) in
      guard let equals = text.firstIndex(of: "=") else { throw form }
      let listener = String(text[..<equals])
      let files = text[text.index(after: equals)...]
      guard listeners.contains(listener) else {
        let hint = Suggestion.nearest(to: listener, among: listeners)
          .map { "; did you mean \($0)?" }
        throw ValueProblem(
          "names no listener; it is one of \(listeners.joined(separator: ", "))\(hint ?? "")")
      }
      guard let colon = files.lastIndex(of: ":"), colon != files.startIndex,
        files.index(after: colon) != files.endIndex
      else { throw form }
      return ServerCertificate(
        listener: listener, chainFile: String(files[..<colon]),
        keyFile: String(files[files.index(after: colon)...]))
    }
  }

  private static var form: ValueProblem {
    ValueProblem(
      "is not a listener with two files, such as http2=/etc/ssl/fullchain.pem:/etc/ssl/privkey.pem")
  }
}
