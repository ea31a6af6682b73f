import ApusDirectory
import ApusLog
package import ApusModel
import ApusTrust
import ApusWire
import Synchronization

/// The administration tokens of a service, stored only as SHA-256.
///
/// A token has 256 random bits, so a plain hash is sufficient: a slow one would not make guessing any harder.
package struct AdminTokens: Sendable {
  package struct Token: Sendable, Hashable {
    package var name: String
    package var scopes: AdminScopes
    package var madeSeconds: Int64
    /// When the token expires, Unix seconds; nil if it never expires.
    package var expiresSeconds: Int64?
    var sha256: SHA256Digest
  }

  /// Lets log filters and secret scanners recognize a token.
  package static let prefix = "apus_"
  private static let secretBytes = 32

  package private(set) var tokens: [Token] = []

  /// The token with that secret; nil if there is none or it has expired. The search takes constant time.
  func token(of secret: String, nowSeconds: Int64) -> Token? {
    let digest = SHA256Digest(of: Array(secret.utf8).span).bytes
    var found: Token?
    for token in tokens {
      let bytes = token.sha256.bytes
      if constantTimeEquals(bytes.span, digest.span) { found = token }
    }
    guard let found, found.expiresSeconds.map({ nowSeconds < $0 }) ?? true else { return nil }
    return found
  }

  // MARK: The file

  init(_ file: SectionFile, path: String) throws(DirectoryProblem) {
    for section in file.sections {
      guard section.kind == "token", !section.name.isEmpty,
        let sha256 = section["sha256"].flatMap(SHA256Digest.init(hex:)),
        let scopes = section["scopes"].flatMap({ AdminScopes(text: $0) }),
        let made = section["made"].flatMap({ Int64($0) }),
        section["expires"].map({ Int64($0) != nil }) ?? true
      else {
        throw DirectoryProblem("\(path), line \(section.line): malformed token entry")
      }
      tokens.append(
        Token(
          name: section.name, scopes: scopes, madeSeconds: made,
          expiresSeconds: section["expires"].flatMap { Int64($0) }, sha256: sha256))
    }
  }

  fileprivate var file: SectionFile {
    SectionFile(
      sections: tokens.map { token in
        var values = [
          ("sha256", token.sha256.hex), ("scopes", token.scopes.text),
          ("made", String(token.madeSeconds)),
        ]
        if let expires = token.expiresSeconds { values.append(("expires", String(expires))) }
        return SectionFile.Section(kind: "token", name: token.name, values: values)
      })
  }

  fileprivate static func makeSecret() -> String {
    let bytes = randomBytes(secretBytes)
    return prefix + String(decoding: Base64URL.encode(bytes.span), as: UTF8.self)
  }

  fileprivate mutating func add(_ token: Token) { tokens.append(token) }

  fileprivate mutating func remove(_ name: String) -> Token? {
    tokens.firstIndex { $0.name == name }.map { tokens.remove(at: $0) }
  }
}

extension DataDirectory {
  package func adminTokens() throws -> AdminTokens {
    guard Files.exists(adminTokenFile) else {
      return try AdminTokens(SectionFile(), path: adminTokenFile)
    }
    do {
      return try AdminTokens(
        SectionFile(text: Files.readText(adminTokenFile)), path: adminTokenFile)
    } catch let fault as SectionFile.Fault {
      throw DirectoryProblem("\(adminTokenFile), \(fault)")
    }
  }

  /// Makes a token and returns its text, which is not stored.
  package func addAdminToken(
    name: String, scopes: AdminScopes, nowSeconds: Int64, expiresSeconds: Int64? = nil
  ) throws -> String {
    guard 1...Limits.adminNameBytes ~= name.utf8.count,
      name.utf8.allSatisfy({ 0x21...0x7e ~= $0 && $0 != UInt8(ascii: "]") })
    else {
      throw DirectoryProblem(
        "a token name must have 1 to \(Limits.adminNameBytes) visible ASCII characters and no ]")
    }
    let secret = AdminTokens.makeSecret()
    try editAdminTokens { tokens in
      guard !tokens.tokens.contains(where: { $0.name == name }) else {
        throw DirectoryProblem("the token \(name) already exists")
      }
      guard tokens.tokens.count < Limits.adminTokens else {
        throw DirectoryProblem("there are \(tokens.tokens.count) tokens; remove some")
      }
      tokens.add(
        .init(
          name: name, scopes: scopes, madeSeconds: nowSeconds, expiresSeconds: expiresSeconds,
          sha256: SHA256Digest(of: Array(secret.utf8).span)))
    }
    return secret
  }

  /// Removes a token. A running service rejects it from the next request on.
  package func removeAdminToken(name: String) throws {
    try editAdminTokens { tokens in
      guard tokens.remove(name) != nil else {
        let known = tokens.tokens.map(\.name).joined(separator: ", ")
        throw DirectoryProblem(
          "the token \(name) does not exist" + (known.isEmpty ? "" : "; the tokens are \(known)"))
      }
    }
  }

  private func editAdminTokens(_ change: (inout AdminTokens) throws -> Void) throws {
    try requireProvisioned()
    try changing {
      var tokens = try adminTokens()
      try change(&tokens)
      try Files.write(
        tokens.file.text(
          heading: "Administration tokens of this service. `apus admin` changes them."),
        to: adminTokenFile, isPrivate: true)
    }
  }
}

/// The tokens of the file, read again when its stamp changes.
final class AdminTokenFile: Sendable {
  private struct State {
    var stamp: FileStamp
    /// Nil: the file cannot be read, so all tokens are rejected.
    var tokens: AdminTokens?
  }

  private let directory: DataDirectory
  private let log: Log
  private let state: Mutex<State>

  init(_ directory: DataDirectory, _ log: Log) {
    self.directory = directory
    self.log = log
    let stamp = FileStamp(directory.adminTokenFile)
    state = Mutex(State(stamp: stamp, tokens: Self.read(directory, log)))
  }

  private static func read(_ directory: DataDirectory, _ log: Log) -> AdminTokens? {
    do {
      return try directory.adminTokens()
    } catch {
      log(
        .error, "all administration tokens are rejected", .text("reason", "\(error)"),
        .text("remedy", "repair the file, or remove it and run apus admin add"))
      return nil
    }
  }

  /// Checks the stamp each time, which costs one system call, so that removing a token takes effect at once.
  func token(of secret: String, nowSeconds: Int64) -> AdminTokens.Token? {
    let stamp = FileStamp(directory.adminTokenFile)
    return state.withLock { state in
      if stamp != state.stamp {
        // The stamp was taken before reading: a change in between triggers another read.
        state = State(stamp: stamp, tokens: Self.read(directory, log))
      }
      return state.tokens?.token(of: secret, nowSeconds: nowSeconds)
    }
  }
}
