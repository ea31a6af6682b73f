import ApusModel

/// The commands of `apus-bench`, which is for measuring and for trying things out.
package enum BenchVerb: String, Sendable, CaseIterable {
  case jwt
  case fleet
  case binary
  case flood
  case crash
  case handshake
  case credentials
  case register
  case engine
  case fetch
  case send
  case sendBinary = "send-binary"
  case push
  case help
}

extension Program {
  package static let bench = Program(
    name: "apus-bench", summary: "tools for measuring Apus", details: [],
    commands: [
      CommandDescription(
        name: BenchVerb.jwt.rawValue, summary: "print a provider token",
        details: ["The token is good for an hour from now."],
        examples: [
          ("For curl", "apus-bench jwt --key ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456")
        ]),
      fleetDescription,
      CommandDescription(
        name: BenchVerb.binary.rawValue, summary: "send through the binary interface",
        details: [
          """
          Sends frames of command 2, each of 300 bytes, to the tokens in turn, with identifiers from 1. Behind them \
          goes a notification that no service takes: its error packet tells that all others were processed. Then it \
          prints one JSON object: frames, bytes, seconds, confirmed, cipher. Any other error packet is a failure.
          """
        ],
        examples: [
          (
            "A million notifications, each in a TLS record of its own",
            "apus-bench binary --certificate provider.crt --key provider.key --authority service.crt "
              + "--tokens tokens --frames 1000000 --records frame"
          )
        ]),
      CommandDescription(
        name: BenchVerb.flood.rawValue, summary: "connect repeatedly with bad notifications",
        details: [
          """
          From each source, one connection after the other sends one bad notification and waits for the service to \
          say so and close, until SIGTERM or SIGINT. Then it prints one JSON object: connections, answered, failed.
          """
        ]),
      CommandDescription(
        name: BenchVerb.crash.rawValue, summary: "kill a service again and again, and count",
        details: [
          """
          Starts `apus serve` on the data directory, sends to devices that come and go through the HTTP/2 API and the \
          binary interface, kills it with SIGKILL at random moments, and starts it again. In a last life all devices \
          come back, and everything that was accepted must have arrived, or a newer notification in its place. Then \
          it prints one JSON object: kills, accepted, delivered, replaced, redelivered, lost and more. It fails when \
          anything was lost, or came in a way that it must not, and names it. What the service printed is in \
          crash.log of the data directory.
          """
        ],
        examples: [
          (
            "A hundred kills",
            "apus-bench crash --apus .build/release/apus --data DIR --certificate provider.crt "
              + "--key provider.key --authority service.crt"
          )
        ]),
      CommandDescription(
        name: BenchVerb.handshake.rawValue, summary: "let devices shake hands and leave",
        details: [
          """
          Issues a certificate to each device from the data directory's authority, with a new key for all of them, and \
          has them connect in turn, several at a time; each closes once its handshake is complete. Then it prints one \
          JSON object: handshakes, resumed, microseconds, cipher.
          """
        ]),
      CommandDescription(
        name: BenchVerb.credentials.rawValue, summary: "measure the cost of checking tokens",
        details: [
          """
          Prints one JSON object with nanoseconds of one processor: unseal_ns for a device token, unseal_32_ns for one \
          of 32 together, provider_token_checked_ns with the signature checked, provider_token_known_ns for one that \
          the connection has seen before.
          """
        ]),
      CommandDescription(
        name: BenchVerb.register.rawValue, summary: "make devices known without connecting them",
        details: [
          """
          Writes a record of each device into the store of a service that does not run, as if it had connected once \
          and asked for the token of the first app. Its id follows from its number, as in a fleet. Then it prints one \
          JSON object: devices, seconds.
          """
        ]),
      CommandDescription(
        name: BenchVerb.engine.rawValue, summary: "write notifications to a store directly",
        details: [
          """
          Opens a store as the service does, and writes notifications to it that wait for devices: groups of one \
          size, each sorted and synced as the service does it, the next one made while one is written. Then it prints \
          one JSON object: open_seconds, notifications, groups, syncs, seconds.
          """
        ]),
      CommandDescription(
        name: BenchVerb.fetch.rawValue, summary: "connect devices and wait for what is stored",
        details: [
          """
          One device after the other connects, names its app, and waits for the last notification that is stored for \
          it. Then it prints one JSON object: devices, and how many microseconds each took from its first packet.
          """
        ]),
      CommandDescription(
        name: BenchVerb.send.rawValue, summary: "send through the client library",
        details: [
          """
          Sends the same notification again and again with `ApusClient`, under a key that was made for it, to a server \
          that answers everything with 200. Then it prints one JSON object: notifications, microseconds, \
          cpu_nanoseconds_each, and the most that was ever in memory, before and after.
          """
        ]),
      CommandDescription(
        name: BenchVerb.sendBinary.rawValue,
        summary: "send over the binary interface through the client library",
        details: [
          """
          Sends the same payload to the tokens in turn with `BinaryClient` of `ApusClient`, to a gateway that accepts \
          everything or a server that reads and is silent. Then it prints one JSON object: notifications, \
          frame_bytes, microseconds, cpu_nanoseconds_each, resident_kilobytes.
          """
        ]),
      pushDescription,
      CommandDescription(
        name: BenchVerb.help.rawValue, summary: "describe a command", operands: "[COMMAND]",
        operandCount: 0...1),
    ], options: BenchOptions.all)
}

/// The options of `apus-bench`.
package enum BenchOptions {
  package static let key = Option(
    "--key", .file, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The provider key that signs.")
  package static let keyID = Option(
    "--key-id", .keyID, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true, help: "Its id.")
  package static let team = Option(
    "--team", .teamID, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true, help: "The team that it belongs to.")

  package static let connect = Option(
    "--connect", .hostPort, in: [BenchVerb.fleet, .fetch, .handshake], group: .load,
    scope: .flagOnly,
    default: "127.0.0.1:5223", help: "The service's listener for devices, as a numeric address.")
  package static let topic = Option(
    "--topic", .topic, in: [BenchVerb.fleet, .push, .crash, .fetch], group: .load,
    scope: .flagOnly, default: "com.example.app", help: "The app that each device registers.")
  package static let printTokens = Option(
    "--print-tokens", .file, in: [BenchVerb.fleet, .register], group: .load, scope: .flagOnly,
    help: "Write the tokens there once all are known, one a line, in the order of the devices.")
  package static let data = Option(
    "--data", .directory,
    in: [BenchVerb.fleet, .push, .crash, .register, .fetch, .binary, .handshake],
    group: .general,
    scope: .flagAndEnvironment,
    default: "./apus-data", help: "The service's data directory.")

  // MARK: The binary interface

  private static let connecting: [BenchVerb] = [.binary, .flood]
  private static let providers: [BenchVerb] = [.binary, .flood, .crash]

  package static let gateway = Option(
    "--connect", .hostPort, in: connecting, group: .connection, scope: .flagOnly,
    default: "127.0.0.1:2195",
    help: "The service's listener for binary providers, as a numeric address.")
  package static let source = Option(
    "--source", .hostPort, in: connecting, group: .connection, scope: .flagOnly, repeats: true,
    help: "An address and port of this machine to connect from.")
  package static let certificate = Option(
    "--certificate", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The provider's certificate.")
  package static let certificateKey = Option(
    "--key", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The certificate's key.")
  package static let authority = Option(
    "--authority", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The authority that the service's certificate comes from.")

  package static let tokens = Option(
    "--tokens", .file, in: [BenchVerb.binary, .push], group: .load, scope: .flagOnly,
    help: "The tokens to send to, one a line.")
  package static let frames = Option(
    "--frames", .integer("N", 1...4_000_000_000), in: [BenchVerb.binary], group: .load,
    scope: .flagOnly, isRequired: true, help: "How many notifications.")
  package static let expiration = Option(
    "--expiration", .expiration, in: [BenchVerb.binary, .push], group: .load, scope: .flagOnly,
    default: "0", help: "Until when they are worth keeping: seconds since 1970, +1h, or 0.")
  package static let records = Option(
    "--records", .choice("SIZE", [("full", BinaryRecords.full), ("frame", .frame)]),
    in: [BenchVerb.binary], group: .load, scope: .flagOnly, default: "full",
    help: "TLS records of 16 KB (full), or one for each notification (frame).")
  package static let unlike = Option(
    "--unlike", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Payloads that differ from their beginning on, and not in their last member.")
  package static let oneAtATime = Option(
    "--one-at-a-time", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Wait for the confirmation of each, and print how many microseconds each took.")
  package static let halfClose = Option(
    "--half-close", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Close after the last byte and wait for the other side to do so, as a plain sink does.")

  // MARK: Crashes

  package static let apus = Option(
    "--apus", .file, in: [BenchVerb.crash], group: .service, scope: .flagOnly, isRequired: true,
    help: "The program that is started, and killed.")
  package static let kills = Option(
    "--kills", .integer("N", 1...1_000_000), in: [BenchVerb.crash], group: .load,
    scope: .flagOnly, default: "100", help: "How often.")
  package static let seed = Option(
    "--seed", .integer("N", 1...999_999_999), in: [BenchVerb.crash], group: .load,
    scope: .flagOnly, note: "a new one, which is printed",
    help: "Where the random numbers begin: the same plan for the same seed.")

  package static let retention = Option(
    "--retention", .integer("N", 1...Limits.retainedNotifications), in: [BenchVerb.crash],
    group: .load, scope: .flagOnly, default: "1",
    help: "How many notifications of the app wait for a device: what apus app --retain says.")

  // MARK: Trust

  package static let handshakes = Option(
    "--handshakes", .integer("N", 1...100_000_000), in: [BenchVerb.handshake], group: .load,
    scope: .flagOnly, default: "1000", help: "How many.")
  package static let handshakeDevices = Option(
    "--devices", .integer("N", 1...100_000), in: [BenchVerb.handshake], group: .load,
    scope: .flagOnly, default: "8", help: "How many devices, in turn, each with a certificate.")
  package static let resumes = Option(
    "--resume", .flag, in: [BenchVerb.handshake], group: .load, scope: .flagOnly,
    help: "Resume the session of the last connection; of the first 8 devices alone.")
  package static let sliceSeconds = Option(
    "--seconds", .integer("N", 1...600), in: [BenchVerb.credentials], group: .load,
    scope: .flagOnly, default: "1", help: "Seconds for each.")

  // MARK: Stores

  private static let numbered: [BenchVerb] = [.register, .engine, .fetch]

  package static let numberedDevices = Option(
    "--devices", .integer("N", 1...1_000_000_000), in: numbered, group: .load, scope: .flagOnly,
    isRequired: true, help: "How many devices.")
  package static let registered = Option(
    "--devices", .integer("N", 1...1_000_000_000), in: [BenchVerb.binary], group: .load,
    scope: .flagOnly, help: "Instead of tokens: how many devices `register` made.")
  package static let first = Option(
    "--first", .integer("N", 0...1_000_000_000), in: [BenchVerb.fleet, .binary, .engine, .fetch],
    group: .load, scope: .flagOnly, default: "0", help: "The number of the device to begin with.")
  package static let store = Option(
    "--store", .directory, in: [BenchVerb.engine], group: .load, scope: .flagOnly,
    isRequired: true, help: "The store; created if it does not exist.")
  package static let notifications = Option(
    "--notifications", .integer("N", 0...4_000_000_000), in: [BenchVerb.engine], group: .load,
    scope: .flagOnly, isRequired: true, help: "How many, to the devices in turn.")
  package static let groupSize = Option(
    "--group", .integer("N", 1...1_000_000), in: [BenchVerb.engine], group: .load,
    scope: .flagOnly, default: "1000", help: "Notifications that are synced together.")
  package static let removed = Option(
    "--removed", .flag, in: [BenchVerb.register], group: .load, scope: .flagOnly,
    help: "Devices from which the app was removed afterwards: their tokens are dead.")
  package static let frameBytes = Option(
    "--frame-bytes", .integer("N", 300...2048), in: [BenchVerb.binary, .engine], group: .load,
    scope: .flagOnly, default: "300",
    help: "Bytes of a frame of command 2, of which 61 are not the payload's.")

  package static let all: [OptionDescription] =
    [
      key.description, keyID.description, team.description, connect.description, topic.description,
      printTokens.description,
      gateway.description, source.description,
      certificate.description, certificateKey.description, authority.description,
      tokens.description, frames.description, expiration.description, records.description,
      unlike.description, oneAtATime.description, halfClose.description, apus.description,
      kills.description, retention.description,
      seed.description, numberedDevices.description, registered.description, first.description,
      store.description, notifications.description, groupSize.description, frameBytes.description,
      removed.description, http2.description, sinkAuthority.description, connections.description,
      token.description, payload.description, pushes.description, warmUp.description,
      form.description, tasks.description, capacity.description,
      handshakes.description, handshakeDevices.description, resumes.description,
      sliceSeconds.description, data.description,
    ] + ofFleet + ofPush + ofBinaryClient
}

/// How plaintext is cut into TLS records.
package enum BinaryRecords: Sendable {
  case full, frame
}
