package import ApusModel

/// The commands of `apus-bench`, which measures Apus and tests it under load.
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
  case man
}

extension Program {
  package static let bench = Program(
    name: "apus-bench", summary: "tools for measuring Apus", details: [],
    commands: [
      CommandDescription(
        name: BenchVerb.jwt.rawValue, summary: "print a provider token",
        details: ["The token is valid for an hour from now."],
        examples: [
          ("For curl", "apus-bench jwt --key ABC123DEFG.p8 --key-id ABC123DEFG --team TEAM123456")
        ]),
      fleetDescription,
      CommandDescription(
        name: BenchVerb.binary.rawValue, summary: "send through the binary interface",
        details: [
          """
          Sends frames of command 2, each of 300 bytes, to the tokens in turn, with identifiers from 1. After them it \
          sends a notification that every service rejects; its error packet confirms that all others were processed. \
          Then it prints one JSON object: frames, bytes, seconds, confirmed, cipher. Any other error packet is an \
          error of the run.
          """
        ],
        examples: [
          (
            "A million notifications, each in a separate TLS record",
            "apus-bench binary --certificate provider.crt --key provider.key --authority service.crt "
              + "--tokens tokens --frames 1000000 --records frame"
          )
        ]),
      CommandDescription(
        name: BenchVerb.flood.rawValue, summary: "connect repeatedly with bad notifications",
        details: [
          """
          From each source, one connection at a time sends a bad notification and waits until the service reports it \
          and closes. Runs until SIGTERM or SIGINT, then prints one JSON object: connections, answered, failed.
          """
        ]),
      CommandDescription(
        name: BenchVerb.crash.rawValue,
        summary: "kill a service repeatedly and check that nothing is lost",
        details: [
          """
          Starts `apus serve` on the data directory, sends through the HTTP/2 API and the binary interface to devices \
          that connect and disconnect, kills the service with SIGKILL at random moments, and starts it again. In the \
          last run all devices reconnect, and every accepted notification, or a newer one that replaced it, must have \
          arrived. Then it prints one JSON object: kills, accepted, delivered, replaced, redelivered, lost and more. \
          It fails if a notification was lost or arrived wrongly, and names it. The output of the service is in \
          crash.log in the data directory.
          """
        ],
        examples: [
          (
            "A hundred kills",
            "apus-bench crash --apus /usr/bin/apus --data DIR --certificate provider.crt "
              + "--key provider.key --authority service.crt"
          )
        ]),
      CommandDescription(
        name: BenchVerb.handshake.rawValue, summary: "measure TLS handshakes of devices",
        details: [
          """
          Issues a certificate to each device from the data directory's authority, with one new key for all of them, \
          and connects them in turn, several at a time; each closes once its handshake is complete. Then it prints one \
          JSON object: handshakes, resumed, microseconds, cipher.
          """
        ]),
      CommandDescription(
        name: BenchVerb.credentials.rawValue, summary: "measure the cost of checking tokens",
        details: [
          """
          Prints one JSON object with nanoseconds on one processor: unseal_ns for a device token, unseal_32_ns for one \
          of 32 unsealed together, provider_token_checked_ns including the signature check, provider_token_known_ns \
          for a provider token that the connection has seen before.
          """
        ]),
      CommandDescription(
        name: BenchVerb.register.rawValue, summary: "register devices without connecting them",
        details: [
          """
          Writes a record of each device into the store of a service that does not run, as if the device had connected \
          once and asked for the token of the first app. A device's id is derived from its number, as in `fleet`. Then \
          it prints one JSON object: devices, seconds.
          """
        ]),
      CommandDescription(
        name: BenchVerb.engine.rawValue, summary: "write notifications to a store directly",
        details: [
          """
          Opens a store and writes pending notifications to it as the service does: in groups of equal size, each \
          sorted and synced while the next one is prepared. Then it prints one JSON object: open_seconds, \
          notifications, groups, syncs, seconds.
          """
        ]),
      CommandDescription(
        name: BenchVerb.fetch.rawValue,
        summary: "connect devices and wait for stored notifications",
        details: [
          """
          Connects one device after the other, registers its app, and waits for its last stored notification. Then it \
          prints one JSON object: devices, and the microseconds that each took from its first packet.
          """
        ]),
      CommandDescription(
        name: BenchVerb.send.rawValue, summary: "send through the client library",
        details: [
          """
          Sends the same notification repeatedly with `ApusClient`, signed with a key made for the run, to a server \
          that responds to everything with 200. Then it prints one JSON object: notifications, microseconds, \
          cpu_nanoseconds_each, and the peak memory before and after.
          """
        ]),
      CommandDescription(
        name: BenchVerb.sendBinary.rawValue,
        summary: "send over the binary interface through the client library",
        details: [
          """
          Sends the same payload to the tokens in turn with `BinaryClient` of `ApusClient`, to a gateway that accepts \
          everything or a server that only reads. Then it prints one JSON object: notifications, \
          frame_bytes, microseconds, cpu_nanoseconds_each, resident_kilobytes.
          """
        ]),
      pushDescription,
      CommandDescription(
        name: BenchVerb.help.rawValue, summary: "describe a command", operands: "[COMMAND]",
        operandCount: 0...1),
      CommandDescription(
        name: BenchVerb.man.rawValue, summary: "print the manual page",
        examples: [("Read it", "apus-bench man | man -l -")]),
    ], options: BenchOptions.all)
}

/// The options of `apus-bench`.
package enum BenchOptions {
  package static let key = Option(
    "--key", .file, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The provider key that signs the token.")
  package static let keyID = Option(
    "--key-id", .keyID, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true,
    help: "The key's id, 10 letters and digits, which the name of its file contains (ID.p8).")
  package static let team = Option(
    "--team", .teamID, in: [BenchVerb.jwt], group: .credentials, scope: .flagOnly,
    isRequired: true, help: "The team that the key belongs to.")

  package static let connect = Option(
    "--connect", .hostPort, in: [BenchVerb.fleet, .fetch, .handshake], group: .load,
    scope: .flagOnly,
    default: "127.0.0.1:5223", help: "The service's listener for devices, as a numeric address.")
  package static let topic = Option(
    "--topic", .topic, in: [BenchVerb.fleet, .push, .crash, .fetch], group: .load,
    scope: .flagOnly, default: "com.example.app", help: "The app that each device registers.")
  package static let printTokens = Option(
    "--print-tokens", .file, in: [BenchVerb.fleet, .register], group: .load, scope: .flagOnly,
    help:
      "Write the tokens to this file once all are known, one per line, in the order of the devices."
  )
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
    help: "A local address and port to connect from.")
  package static let certificate = Option(
    "--certificate", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The provider's certificate.")
  package static let certificateKey = Option(
    "--key", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The certificate's key.")
  package static let authority = Option(
    "--authority", .file, in: providers, group: .credentials, scope: .flagOnly, isRequired: true,
    help: "The authority that issued the service's certificate.")

  package static let tokens = Option(
    "--tokens", .file, in: [BenchVerb.binary, .push], group: .load, scope: .flagOnly,
    help: "A file of device tokens to send to, one per line.")
  package static let frames = Option(
    "--frames", .integer("N", 1...4_000_000_000), in: [BenchVerb.binary], group: .load,
    scope: .flagOnly, isRequired: true, help: "Number of notifications.")
  package static let expiration = Option(
    "--expiration", .expiration, in: [BenchVerb.binary, .push, .sendBinary], group: .load,
    scope: .flagOnly, default: "0",
    help: "When the notifications expire: seconds since 1970, +1h, or 0.")
  package static let records = Option(
    "--records", .choice("SIZE", [("full", BinaryRecords.full), ("frame", .frame)]),
    in: [BenchVerb.binary], group: .load, scope: .flagOnly, default: "full",
    help: "TLS records of 16 KB (full), or one per notification (frame).")
  package static let unlike = Option(
    "--unlike", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Make payloads differ at their beginning instead of in their last member.")
  package static let oneAtATime = Option(
    "--one-at-a-time", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Wait for each confirmation, and print how many microseconds it took.")
  package static let halfClose = Option(
    "--half-close", .flag, in: [BenchVerb.binary], group: .load, scope: .flagOnly,
    help: "Close after the last byte and wait until the peer closes, for a server that only reads.")

  // MARK: Crashes

  package static let apus = Option(
    "--apus", .file, in: [BenchVerb.crash], group: .service, scope: .flagOnly, isRequired: true,
    help: "The `apus` program to start and kill.")
  package static let kills = Option(
    "--kills", .integer("N", 1...1_000_000), in: [BenchVerb.crash], group: .load,
    scope: .flagOnly, default: "100", help: "Number of kills.")
  package static let seed = Option(
    "--seed", .integer("N", 1...999_999_999), in: [BenchVerb.crash], group: .load,
    scope: .flagOnly, note: "a random one, which is printed",
    help: "The seed of the random numbers; the same seed gives the same plan.")

  package static let retention = Option(
    "--retention", .integer("N", 1...Limits.retainedNotifications), in: [BenchVerb.crash],
    group: .load, scope: .flagOnly, default: "1",
    help: "How many notifications of the app are stored per device, as set by `apus app --retain`.")

  // MARK: Trust

  package static let handshakes = Option(
    "--handshakes", .integer("N", 1...100_000_000), in: [BenchVerb.handshake], group: .load,
    scope: .flagOnly, default: "1000", help: "Number of handshakes.")
  package static let handshakeDevices = Option(
    "--devices", .integer("N", 1...100_000), in: [BenchVerb.handshake], group: .load,
    scope: .flagOnly, default: "8",
    help: "Number of devices, each with a certificate, used in turn.")
  package static let resumes = Option(
    "--resume", .flag, in: [BenchVerb.handshake], group: .load, scope: .flagOnly,
    help: "Resume the session of the last connection; only the first 8 devices.")
  package static let sliceSeconds = Option(
    "--seconds", .integer("N", 1...600), in: [BenchVerb.credentials], group: .load,
    scope: .flagOnly, default: "1", help: "Seconds per measurement.")

  // MARK: Stores

  private static let numbered: [BenchVerb] = [.register, .engine, .fetch]

  package static let numberedDevices = Option(
    "--devices", .integer("N", 1...1_000_000_000), in: numbered, group: .load, scope: .flagOnly,
    isRequired: true, help: "Number of devices.")
  package static let registered = Option(
    "--devices", .integer("N", 1...1_000_000_000), in: [BenchVerb.binary], group: .load,
    scope: .flagOnly, help: "Instead of tokens: the number of devices that `register` made.")
  package static let first = Option(
    "--first", .integer("N", 0...1_000_000_000), in: [BenchVerb.fleet, .binary, .engine, .fetch],
    group: .load, scope: .flagOnly, default: "0", help: "The number of the first device.")
  package static let store = Option(
    "--store", .directory, in: [BenchVerb.engine], group: .load, scope: .flagOnly,
    isRequired: true,
    help: "The store, created if it does not exist, or the address of a PostgreSQL database.")
  package static let notifications = Option(
    "--notifications", .integer("N", 0...4_000_000_000), in: [BenchVerb.engine], group: .load,
    scope: .flagOnly, isRequired: true, help: "Number of notifications, to the devices in turn.")
  package static let groupSize = Option(
    "--group", .integer("N", 1...1_000_000), in: [BenchVerb.engine], group: .load,
    scope: .flagOnly, default: "1000", help: "Notifications per sync.")
  package static let removed = Option(
    "--removed", .flag, in: [BenchVerb.register], group: .load, scope: .flagOnly,
    help: "Number of devices from which the app was removed afterwards; their tokens are invalid.")
  package static let frameBytes = Option(
    "--frame-bytes", .integer("N", 300...2048), in: [BenchVerb.binary, .engine], group: .load,
    scope: .flagOnly, default: "300",
    help: "Bytes of a frame of command 2, 61 more than the payload.")

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

/// How plaintext is split into TLS records.
package enum BinaryRecords: Sendable {
  case full, frame
}
