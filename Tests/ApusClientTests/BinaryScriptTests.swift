import ApusRandom
import ApusModel
import ApusTLS
import ApusTesting
import Testing

@testable import ApusClient

/// A client and a scripted gateway, over real sockets and TLS.
@Suite("The binary client and misbehaving gateways", .timeLimit(.minutes(30)))
struct BinaryScriptTests {
  private func client(
    _ gateway: ScriptedGateway, _ command: BinaryClientConfiguration.Command = .framed,
    change: (inout BinaryClientConfiguration) -> Void = { _ in }
  ) throws -> BinaryClient {
    let identity = gateway.clientIdentity
    var configuration = BinaryClientConfiguration(
      endpoint: Endpoint(host: "127.0.0.1", port: gateway.port),
      trustRoots: .pem(gateway.authorityPEM),
      credential: .certificate(
        certificatePEM: identity.certificateChainPEM, keyPEM: identity.privateKeyPEM))
    configuration.command = command
    configuration.expectsConfirmations = gateway.options.confirms
    // Makes every acceptance a proven one, unless a test changes it.
    configuration.silenceMilliseconds = 25_000
    change(&configuration)
    return try BinaryClient(configuration)
  }

  private func pushes(_ count: Int) -> [PushRequest] {
    (0..<count).map { number in
      var push = PushRequest(token: "0a0b", topic: nil, payload: Array("\(number)".utf8))
      push.id = Bench.id(UInt64(number))
      return push
    }
  }

  /// A letter for each push: accepted, rejected, unknown and possibly accepted, not sent.
  private func letters(_ outcomes: [SendOutcome?]) -> String {
    String(
      outcomes.map { outcome -> Character in
        switch outcome {
        case .accepted: "a"
        case .rejected: "r"
        case .unknown(_, retryMayDuplicate: true): "u"
        case .unknown(_, retryMayDuplicate: false): "n"
        case nil: "."
        }
      })
  }

  // MARK: Single cases

  @Test(
    "Each kind of end is reported correctly, and unread notifications go to the next connection",
    arguments: [
      ([[.refuse(.invalidToken)]], "raaaaaaa"),
      ([[.take(3), .refuse(.invalidToken)]], "aaaraaaa"),
      ([[.take(7), .refuse(.invalidPayloadSize)]], "aaaaaaar"),
      ([[.take(2), .say(status: 8, .next, isSplit: true)]], "aaraaaaa"),
      ([[.take(2), .say(status: 8, .next, times: 3)]], "aaraaaaa"),
      ([[.take(1), .refuse(.invalidToken)], [.take(1), .refuse(.invalidToken)]], "araraaaa"),
      ([[.take(4), .shutDown]], "aaaaaaaa"), ([[.shutDown], [.shutDown]], "aaaaaaaa"),
      ([[.take(3), .shutDown], [.take(1), .refuse(.unknown)]], "aaaaraaa"),
      ([[.take(8), .say(status: 8, .number(77))]], "uuuuuuuu"),
      ([[.take(8), .say(status: 10, .number(77))]], "uuuuuuuu"),
      ([[.take(8), .say(status: 8, .number(0))]], "uuuuuuuu"),
      ([[.take(8), .babble([1, 8, 0, 0, 0, 1])]], "uuuuuuuu"),
      ([[.take(8), .babble([8, 8, 0])]], "uuuuuuuu"),
      ([[.take(7), .eatPacket]], "uuuuuuuu"), ([[.take(7), .takeAndReset]], "uuuuuuuu"),
      ([[.take(7), .halfClose]], "uuuuuuuu"), ([[.take(7), .close]], "uuuuuuuu"),
    ] as [([[GatewayAction]], String)])
  func actions(script: [[GatewayAction]], expected: String) async throws {
    let gateway = try ScriptedGateway(script)
    let client = try client(gateway)
    let outcomes = try await client.outcomesAndClose(pushes(8))
    #expect(letters(outcomes) == expected)
    check(gateway, outcomes)
  }

  @Test("During close, a finished connection does not delay the others")
  func closing() async throws {
    let gateway = try ScriptedGateway([
      [.take(15), .pause(300), .refuse(.invalidToken)], [.pause(300), .refuse(.invalidToken)],
    ])
    let client = try client(gateway) {
      $0.connections = 2
      $0.windowCapacity = 16
      $0.silenceMilliseconds = 10_000
      $0.sendTimeoutSeconds = 20
    }
    let outcomes = try await client.outcomesAndClose(pushes(32))
    #expect(letters(outcomes) == "aaaaaaaaaaaaaaarraaaaaaaaaaaaaaa")
    check(gateway, outcomes)
  }

  @Test("A gateway that confirms is trusted, and after a packet the rest is resent")
  func confirming() async throws {
    var options = ScriptedGateway.Options()
    options.confirms = true
    let gateway = try ScriptedGateway(
      [[.take(5), .refuse(.invalidToken)], [.take(4), .reset]], options)
    let client = try client(gateway)
    let outcomes = try await client.outcomesAndClose(pushes(12))
    let told = letters(outcomes)
    // How many acceptances precede the reset depends on how far the confirmations came.
    #expect(told.hasPrefix("aaaaar"))
    #expect(!told.contains("."))
    check(gateway, outcomes)
  }

  @Test("A slow handshake only takes time")
  func slowHandshake() async throws {
    var options = ScriptedGateway.Options()
    options.handshakePauseMilliseconds = 300
    let gateway = try ScriptedGateway([[.take(1), .refuse(.invalidToken)]], options)
    let outcomes = try await client(gateway).outcomesAndClose(pushes(4))
    #expect(letters(outcomes) == "araa")
  }

  @Test(
    "Without an answer to the probe, silence decides",
    arguments: [BinaryClientConfiguration.Command.framed, .simple])
  func silence(command: BinaryClientConfiguration.Command) async throws {
    var options = ScriptedGateway.Options()
    options.ignoresProbes = true
    let gateway = try ScriptedGateway([], options)
    let client = try client(gateway, command) { $0.silenceMilliseconds = 100 }
    #expect(letters(try await client.outcomesAndClose(pushes(5))) == "aaaaa")
    #expect(gateway.taken.count == 5)
  }

  @Test("With command 0, a bad notification makes all notifications in flight unknown")
  func simple() async throws {
    let gateway = try ScriptedGateway([[.take(3), .close]])
    let client = try client(gateway, .simple) { $0.silenceMilliseconds = 5000 }
    let outcomes = try await client.outcomesAndClose(pushes(4))
    #expect(letters(outcomes) == "uuuu")
  }

  @Test("A gateway that stops reading delays nothing beyond the push's timeout")
  func stalled() async throws {
    let gateway = try ScriptedGateway([[.take(2), .stall]])
    let client = try client(gateway) {
      $0.sendTimeoutSeconds = 1
      $0.silenceMilliseconds = 900
      $0.expectsConfirmations = true
    }
    let outcomes = try await client.outcomesAndClose(pushes(4))
    #expect(letters(outcomes) == "uuuu")
    guard case .unknown(let cause, _) = outcomes[0] else { return }
    #expect(cause.code == .timedOut)
  }

  @Test("An unreachable or untrusted gateway has certainly accepted nothing")
  func unreachable() async throws {
    let gateway = try ScriptedGateway([])
    let foreign = try ScriptedGateway([])
    let distrusting = try client(gateway) { $0.trustRoots = .pem(foreign.authorityPEM) }
    let outcome = try await distrusting.send(pushes(1)[0])
    guard case .unknown(let cause, retryMayDuplicate: false) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(cause.code == .connectionFailed)
    #expect(cause.detail.contains("not trusted"))
    let distrusted = try client(gateway) {
      $0.credential = .certificate(
        certificatePEM: foreign.clientIdentity.certificateChainPEM,
        keyPEM: foreign.clientIdentity.privateKeyPEM)
    }
    #expect(letters([try await distrusted.send(pushes(1)[0])]) == "n")
    #expect(gateway.taken.isEmpty)
  }

  @Test("A client that is closed immediately reports what may have been read")
  func closeImmediately() async throws {
    let gateway = try ScriptedGateway([])
    let client = try client(gateway)
    let push = pushes(1)[0]
    let outcome = try await withThrowingTaskGroup { group in
      group.addTask { try await client.send(push) as SendOutcome? }
      group.addTask {
        while gateway.taken.isEmpty { await Task.yield() }
        client.closeImmediately()
        return nil as SendOutcome?
      }
      var outcomes: [SendOutcome?] = []
      for try await outcome in group where outcome != nil { outcomes.append(outcome) }
      return outcomes
    }
    #expect(letters(outcome) == "u")
    #expect(letters([try await client.send(push)]) == "n")
  }

  @Test("A cancelled push ends for its caller, and an unknown packet does not affect other pushes")
  func cancelled() async throws {
    let gateway = try ScriptedGateway([])
    let client = try client(gateway)
    let push = pushes(1)[0]
    let task = Task { try await client.send(push) }
    while gateway.taken.isEmpty { await Task.yield() }
    task.cancel()
    #expect(letters([try await task.value]) == "u")
    await #expect(throws: PushRequestError.self) {
      _ = try await client.send(PushRequest(token: "x", topic: nil, payload: [1]))
    }
    await client.close()
  }

  // MARK: The law

  /// Outcomes are correct: see `check`.
  @Test(
    "Outcomes are correct with random scripts",
    arguments: (1...12).map(UInt64.init) + [UInt64.random(in: 1...999_999)])
  func randomScripts(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    var options = ScriptedGateway.Options()
    options.confirms = random.chance(1, in: 3)
    let script = (0..<1 + random.below(6)).map { _ in actions(&random) }
    let gateway = try ScriptedGateway(script, options)
    let command: BinaryClientConfiguration.Command =
      options.confirms || random.chance(2, in: 3) ? .framed : .enhanced
    let connections = 1 + random.below(3)
    let window = 16 << random.below(4)
    let client = try client(gateway, command) {
      $0.connections = connections
      $0.windowCapacity = window
    }
    let outcomes = try await client.outcomesAndClose(pushes(1 + random.below(200)))
    #expect(!letters(outcomes).contains("."), "seed \(seed), script \(script)")
    check(gateway, outcomes, "seed \(seed), script \(script)")
  }

  private func actions(_ random: inout SeededRandom) -> [GatewayAction] {
    var actions: [GatewayAction] = []
    for _ in 0..<random.below(3) {
      actions.append(.take(random.below(60)))
      if random.chance(1, in: 5) { actions.append(.pause(UInt64(random.below(30)))) }
    }
    actions.append(
      random.pick([
        .refuse(.invalidToken), .refuse(.processingError), .refuse(.invalidToken), .shutDown,
        .say(status: 8, .next, isSplit: true), .say(status: 255, .next, times: 2),
        .say(status: 8, .number(4_000_000)), .say(status: 10, .number(4_000_000)),
        .babble([0x15, 3]), .eatPacket, .takeAndReset, .reset, .halfClose, .close,
      ]))
    return actions
  }

  /// Each push has one outcome (ensured by the results), none was accepted twice, accepted ones were accepted, rejected
  /// ones were rejected, and ones that were certainly not accepted were not.
  private func check(
    _ gateway: ScriptedGateway, _ outcomes: [SendOutcome?], _ comment: String = ""
  ) {
    let (taken, refused) = (gateway.taken, Set(gateway.refused))
    #expect(Set(taken).count == taken.count, "none is accepted twice. \(comment)")
    var broken: [String] = []
    for (number, outcome) in outcomes.enumerated() {
      let (isTaken, isRefused) = (taken.contains("\(number)"), refused.contains("\(number)"))
      switch outcome {
      case .accepted: if !isTaken { broken.append("\(number) is accepted, and was not taken") }
      case .rejected:
        if !isRefused || isTaken { broken.append("\(number) is rejected, and was not") }
      case .unknown(_, retryMayDuplicate: false):
        if isTaken || isRefused { broken.append("\(number) was read, and is said not to be") }
      case .unknown, nil: break
      }
    }
    #expect(broken == [], "\(comment)")
  }
}
