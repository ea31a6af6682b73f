import ApusCommand
import ApusCore
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// `apus-bench credentials`: measures the cost of checking device tokens and provider tokens.
struct CredentialsCommand {
  private let seconds: Double

  init(_ invocation: Invocation) {
    seconds = Double(invocation.value(BenchOptions.sliceSeconds))
  }

  func run() throws(CommandFailure) {
    do {
      let tokens = try providerTokens()
      print(
        JSONValue.members([
          "unseal_ns": .integer(try unsealing(together: 1)),
          "unseal_32_ns": .integer(try unsealing(together: 32)),
          "provider_token_checked_ns": .integer(tokens.checked),
          "provider_token_known_ns": .integer(tokens.known),
        ]).text)
    } catch {
      throw CommandFailure(.failed, "\(error)")
    }
  }

  /// CPU nanoseconds per item, for a `body` that handles `count` items per call.
  private func cost(of count: Int, _ body: () throws -> Void) rethrows -> Int64 {
    try body()
    let start = Self.processorSeconds()
    var calls = 0
    repeat {
      for _ in 0..<16 { try body() }
      calls += 16
    } while Self.processorSeconds() - start < seconds
    return Int64((Self.processorSeconds() - start) * 1e9 / Double(calls * count))
  }

  private static func processorSeconds() -> Double {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  // MARK: Device tokens

  private func unsealing(together: Int) throws -> Int64 {
    let sealer = TokenSealer(try TokenSealingKeys([.random(id: 1)]))
    let tokens = (0..<1024).map { number in
      sealer.seal(
        TokenClaims(
          device: DeviceID(UInt64(number)), topic: TopicKey(app: AppID(1)),
          environment: .production, generation: 1))
    }
    var opened: [TokenClaims?] = []
    var wrong = 0
    let cost = cost(of: tokens.count) {
      if together == 1 {
        for token in tokens where sealer.open(token) == nil { wrong += 1 }
        return
      }
      for start in stride(from: 0, to: tokens.count, by: together) {
        sealer.open(Array(tokens[start..<start + together]), into: &opened)
        if opened.contains(where: { $0 == nil }) { wrong += 1 }
      }
    }
    guard wrong == 0 else {
      throw CommandFailure(.failed, "tokens that failed to unseal: \(wrong)")
    }
    return cost
  }

  // MARK: Provider tokens

  /// The cost with the signature check, and of a token that the connection has seen before.
  private func providerTokens() throws -> (checked: Int64, known: Int64) {
    let key = try PrivateKey.generateP256()
    guard let keyID = ShortID("ABC123DEFG"), let team = ShortID("TEAM123456") else {
      preconditionFailure("ten letters make an id")
    }
    let now = Int64(time(nil))
    let text = Array(
      try ProviderToken.sign(teamID: team.text, keyID: keyID.text, issuedAt: now, key: key).utf8)
    let verifier = try ProviderKeyVerifier(publicKey: key.publicKey)
    var wrong = 0
    let checked = try cost(of: 1) {
      let token = try ProviderToken.parse(text.span)
      if !verifier.verifies(token, in: text.span) { wrong += 1 }
    }
    var builder = DirectoryBuilder()
    builder.teams = [Team(id: team, name: "Team")]
    builder.keys = [ProviderKey(id: keyID, team: team, environments: .both, index: 0, publicKey: 0)]
    let directory = try builder.build(generation: 1, sha1: TopicHash.init(of:))
    var fields = RequestFields()
    let field = Array("bearer ".utf8) + text
    guard fields.add(.authorization, value: field.span) else {
      throw CommandFailure(.failed, "the header field does not fit")
    }
    var connection = ProviderConnection(environment: .production)
    func authenticate() -> Bool {
      let grant = try? connection.authenticate(fields, directory: directory, nowSeconds: now) { _ in
        VerifiedToken(keyID: keyID, issuer: team, issuedAtSeconds: now)
      }
      return grant != nil
    }
    guard authenticate() else { throw CommandFailure(.failed, "the token was rejected") }
    let known = cost(of: 64) {
      for _ in 0..<64 where !authenticate() { wrong += 1 }
    }
    guard wrong == 0 else { throw CommandFailure(.failed, "rejected tokens: \(wrong)") }
    return (checked, known)
  }
}
