import ApusClient
import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// `apus token`: makes and checks provider tokens.
struct TokenCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let operands = invocation.operands
    switch (operands[0], operands.count) {
    case ("make", 1): try make()
    case ("check", 2): try check(operands[1])
    case ("check", _):
      throw CommandFailure(
        .usage, "the token to check is missing",
        remedy: "`apus token check -` reads it from standard input.")
    case ("make", _):
      throw CommandFailure(.usage, "unexpected argument \"\(operands[1])\"")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(operands[0])\"", remedy: "Use make or check.")
    }
  }

  private func make() throws(CommandFailure) {
    guard
      case .providerToken(let pem, let keyID, let teamID) = try SendCredentials(invocation)
        .providerToken()
    else { return }
    let issuedAt = issuedAt
    let token: String
    do throws(TrustFault) {
      let key = try PrivateKey(pem: String(decoding: pem, as: UTF8.self))
      token = try ProviderToken.sign(
        teamID: teamID, keyID: keyID, issuedAt: issuedAt, key: key)
    } catch {
      throw CommandFailure(
        .configuration, "the key cannot sign: \(error)",
        remedy: "A provider key is a P-256 key in PEM form, as in Apple's .p8 files.")
    }
    Report(
      fields: [
        "token": .string(token), "key_id": .string(keyID), "team": .string(teamID),
        "issued_at": .integer(issuedAt),
      ], text: token + "\n"
    ).print(invocation)
  }

  private var issuedAt: Int64 {
    let now = Process.nowSeconds
    return invocation[TokenOptions.issuedAt].map {
      $0.milliseconds(nowMilliseconds: now * 1000) / 1000
    } ?? now
  }

  // MARK: check

  private func check(_ operand: String) throws(CommandFailure) {
    var text = operand
    if operand == "-" {
      text = try Process.text(of: "/dev/stdin", for: TokenOptions.standardInput, invocation)
    }
    var examination = TokenExamination(text, nowSeconds: Process.nowSeconds)
    if let keyID = examination.keyID {
      if let (key, name) = try verificationKey(keyID) { examination.verify(with: key, named: name) }
    }
    examination.compare(
      keyID: invocation[ApusOptions.keyID], teamID: invocation[ApusOptions.team])
    if !invocation.isOn(ApusOptions.json) { Output.standard(examination.text) }
    guard let first = examination.problems.first else {
      if invocation.isOn(ApusOptions.json) { Output.json(examination.json) }
      return
    }
    var failure = CommandFailure(.failed, first.text, remedy: first.remedy)
    failure.report = examination.json
    throw failure
  }

  /// The key of the options, private or public, or the one in the data directory.
  private func verificationKey(_ keyID: String) throws(CommandFailure) -> (PublicKey, String)? {
    if let path = invocation[ApusOptions.providerKey] {
      let pem = try Process.text(of: path, for: ApusOptions.providerKey, invocation)
      do throws(TrustFault) {
        return (try Self.publicKey(pem), path)
      } catch {
        throw invocation.failure(
          .configuration, about: ApusOptions.providerKey, "\(path): \(error)")
      }
    }
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    guard directory.isProvisioned, let id = ShortID(keyID),
      let pem = try Process.textIfPresent(directory.publicKey(id)),
      let key = try? Self.publicKey(pem)
    else { return nil }
    return (key, directory.publicKey(id))
  }

  private static func publicKey(_ pem: String) throws(TrustFault) -> PublicKey {
    if let key = try? PrivateKey(pem: pem) { return key.publicKey }
    return try PublicKey(spkiPEM: pem)
  }
}
