package import ApusModel

/// The options of `apus`. Help, completions and the manual page all come from this table.
package enum ApusOptions {
  private static let working = [
    Verb.initialize, .serve, .team, .app, .key, .cert, .device, .code, .rotate, .store, .cluster,
    .backup, .restore, .check, .admin, .webhook, .status, .send, .job, .channel, .relay, .listen,
    .log, .token, .doctor, .feedback,
  ]
  /// The commands that act as a provider.
  private static let providers = [Verb.send, .token, .doctor]

  // MARK: General

  package static let data = Option(
    "--data", .directory, in: working, group: .general, default: "./apus-data",
    help: "Where the service keeps its keys, certificates and notifications.")
  package static let configuration = Option(
    Flag.configuration, .file, in: working, group: .general, scope: .flagAndEnvironment,
    note: "apus.conf in the data directory, if it exists",
    help: "A file of settings, one `key = value` on each line.")
  package static let json = Option(
    "--json", .flag, in: working + [.dev], group: .general, scope: .flagOnly,
    help: "Print JSON on standard output, one object per line.")
  package static let logFormat = Option(
    "--log-format", .choice("FORMAT", [("text", LogFormat.text), ("json", .json)]),
    in: [Verb.serve, .listen], group: .general, default: "text",
    help: "The format of the log on standard error: text or json.")
  package static let logLevel = Option(
    "--log-level", .logLevel, in: [Verb.serve, .listen], group: .general, default: "info",
    help: "The lowest level that is logged: debug, info, notice, warning or error.")

  // MARK: init, cert, device

  package static let name = Option(
    "--name", .text("NAME"), in: [Verb.initialize], group: .issue,
    note: "localhost, 127.0.0.1, ::1 and this machine's name", repeats: true,
    help: "A host name or address at which clients reach the service. May be repeated.")
  package static let firstTopic = Option(
    "--topic", .topic, in: [Verb.initialize], group: .issue, default: "com.example.app",
    help: "The first app's bundle id.")
  package static let teamName = Option(
    "--team-name", .text("NAME"), in: [Verb.initialize], group: .issue, default: "Example",
    help: "The name of the first team.")

  package static let certifiedTopic = Option(
    "--topic", .topic, in: [Verb.cert], group: .issue,
    note: "the data directory's only app",
    help: "The bundle id of the app that the certificate is for.")
  package static let extraTopic = Option(
    "--extra-topic", .labelledTopic, in: [Verb.cert], group: .issue, scope: .flagOnly,
    repeats: true,
    help: "Another topic that the certificate covers, and its label. May be repeated.")
  package static let environment = Option(
    "--environment",
    .choice(
      "WHICH",
      [
        ("production", EnvironmentSet.production), ("development", .development), ("both", .both),
      ]), in: [Verb.cert], group: .issue, scope: .flagOnly, default: "both",
    help: "Where the certificate is valid: production, development or both.")
  package static let certificateRSABits = rsa(
    in: .cert,
    help: "Make an RSA key of 2048, 3072 or 4096 bits; many old libraries read no other kind.")
  package static let certificateDays = Option(
    "--days", .integer("N", 1...3650), in: [Verb.cert], group: .issue, scope: .flagOnly,
    default: "365", help: "Days for which the certificate is valid.")

  private static func rsa(in verb: Verb, help: String) -> Option<Int> {
    Option(
      "--rsa", .choice("BITS", [("2048", 2048), ("3072", 3072), ("4096", 4096)]),
      in: [verb], group: .issue, scope: .flagOnly, note: "an ECDSA key on P-256", help: help)
  }

  // MARK: serve

  package static let http2Listen = listener(
    "--http2-listen", port: 2197, help: "Listener for providers, production.")
  package static let http2DevelopmentListen = listener(
    "--http2-development-listen", port: 2198, help: "Listener for providers, development.")
  package static let courierListen = listener(
    "--courier-listen", port: 5223, help: "Listener for devices, production.")
  package static let courierDevelopmentListen = listener(
    "--courier-development-listen", port: 5224, help: "Listener for devices, development.")

  package static let gatewayListen = listener(
    "--gateway-listen", port: 2195, allowed: ListenModifier.ofGateways,
    help: "Listener for legacy senders (binary interface), production.")
  package static let gatewayDevelopmentListen = listener(
    "--gateway-development-listen", port: 2295, allowed: ListenModifier.ofGateways,
    help: "Listener for legacy senders, development.")
  package static let feedbackListen = listener(
    "--feedback-listen", port: 2196, allowed: ListenModifier.ofFeedback,
    help: "Feedback service for legacy senders, production.")
  package static let feedbackDevelopmentListen = listener(
    "--feedback-development-listen", port: 2296, allowed: ListenModifier.ofFeedback,
    help: "Feedback service for legacy senders, development.")
  package static let channelsListen = listener(
    "--channels-listen", port: 2199, isOff: true,
    help: "Where providers manage channels for broadcasts, production; usually 2199.")
  package static let channelsDevelopmentListen = listener(
    "--channels-development-listen", port: 2200, isOff: true,
    help: "Where providers manage channels for broadcasts, development; usually 2200.")

  private static func listener(
    _ flag: String, port: UInt16, isOff: Bool = false,
    allowed: Set<ListenModifier> = ListenModifier.ofOthers, help: String
  ) -> Option<ListenAddresses> {
    Option(
      flag, .listen(port: port, allowed: allowed), in: [Verb.serve], group: .listeners,
      default: isOff ? "off" : "\(port)", help: help)
  }

  package static let proxyFrom = Option(
    "--proxy-from", .addressRanges, in: [Verb.serve], group: .listeners,
    default: "127.0.0.0/8,::1",
    help:
      "The proxies that may connect to addresses with +proxy, separated by commas. They are believed, whatever "
      + "address they say that a client has.")

  /// The listeners of a service, as its socket units name them, and those of the administration.
  private static let listenerNames =
    [
      http2Listen, http2DevelopmentListen, courierListen, courierDevelopmentListen, gatewayListen,
      gatewayDevelopmentListen, feedbackListen, feedbackDevelopmentListen, channelsListen,
      channelsDevelopmentListen,
    ].map { String($0.description.flag.dropFirst(2).dropLast("-listen".count)) } + ["admin"]

  package static let serverCertificate = Option(
    "--server-certificate", .serverCertificate(listenerNames), in: [Verb.serve, .doctor],
    group: .listeners, note: "server/server.crt in the data directory, for each listener",
    repeats: true,
    help:
      "Files of the certificate chain and the key that a listener presents, read again when they change: "
      + "http2=fullchain.pem:privkey.pem. `admin` is the administration over TLS. May be repeated.")

  package static let workers = Option(
    "--workers", .integer("N", 0...256), in: [Verb.serve], group: .service, default: "0",
    note: "0, one per processor", help: "Number of worker threads.")
  package static let noInBandCertificates = Option(
    "--no-in-band-certificates", .flag, in: [Verb.serve], group: .service,
    help: "Refuse devices that authenticate in the connect message instead of in TLS.")
  package static let allowES512 = Option(
    "--allow-es512", .flag, in: [Verb.serve], group: .service,
    help: "Accept provider tokens that name ES512 although a P-256 key signed them.")
  package static let compactTLS = Option(
    "--compact-tls", .choice("SWITCH", [("on", true), ("off", false)]), in: [Verb.serve],
    group: .service, default: "on",
    help:
      "After a TLS 1.3 handshake, keep 300 bytes per connection (on), or OpenSSL's whole object (off)."
  )
  package static let unregisterGrace = Option(
    "--unregister-grace", .seconds(0...2_592_000), in: [Verb.serve], group: .service,
    default: "60", help: "Time after a device drops an app until the app's token becomes invalid.")
  package static let linger = Option(
    "--linger", .integer("MS", 0...1000), in: [Verb.serve], group: .service, default: "50",
    help:
      "Milliseconds to wait for the acknowledgement of a sent notification before storing it."
  )
  package static let tokenRate = Option(
    "--token-rate", .integer("N", 0...1_000_000), in: [Verb.serve], group: .service,
    default: "\(Limits.requestsPerTokenPerSecond)",
    help:
      "Requests per second for one device token; above that the response is 429. 0 for no limit.")
  package static let tokenBurst = Option(
    "--token-burst", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "\(Limits.requestsPerToken)",
    help: "Requests for one device token that may arrive at once.")
  package static let ledger = Option(
    "--ledger", .ledgerMode, in: [Verb.serve], group: .service, default: "all",
    help:
      "Which notifications the ledger follows: all, off, or one in N (1/N). `apus log` shows it."
  )
  package static let ledgerDays = Option(
    "--ledger-days", .integer("N", 1...3650), in: [Verb.serve], group: .service, default: "7",
    help: "Days for which ledger lines are kept.")
  package static let ledgerMegabytes = Option(
    "--ledger-megabytes", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "1024",
    help: "Maximum megabytes of the ledger; beyond that the oldest lines are deleted early.")
  package static let deviceCacheMegabytes = Option(
    "--device-cache-megabytes", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "256", help: "Megabytes of memory for the state of offline devices.")
  package static let memoryMegabytes = Option(
    "--memory-megabytes", .integer("N", 8...1_000_000), in: [Verb.serve], group: .service,
    default: "\(Limits.memoryMegabytes)",
    help: "Megabytes for notifications in memory; near the limit, providers are slowed down.")
  package static let webhookMegabytes = Option(
    "--webhook-megabytes", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "64", help: "Megabytes on disk for events that wait for webhooks.")
  package static let relayMegabytes = Option(
    "--relay-megabytes", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "1024",
    help: "Megabytes on disk for notifications that wait for an upstream; then senders wait.")
  package static let relayHours = Option(
    "--relay-hours", .integer("N", 1...720), in: [Verb.serve], group: .service,
    default: "24", help: "Hours after which a notification ends that its upstream has not answered."
  )
  package static let storeCacheMegabytes = Option(
    "--store-cache-megabytes", .integer("N", 1...1_000_000), in: [Verb.serve], group: .service,
    default: "32", help: "Megabytes for the cache of the store's tables.")
  package static let ephemeral = Option(
    "--ephemeral", .flag, in: [Verb.serve], group: .service,
    help: "Keep notifications and devices in memory only.")
  package static let shutdown = Option(
    "--shutdown", .seconds(0...3600), in: [Verb.serve], group: .service, default: "30",
    help: "Maximum time for a shutdown.")

  // MARK: send

  package static let provider = Option(
    "--to", .providerListener, in: [Verb.send, .doctor], group: .connection,
    scope: .named("send-to"),
    default: "localhost:2197", note: "where the service of --data listens, or localhost:2197",
    help: "The service's listener for providers; apple and apple-sandbox stand for Apple's hosts.")
  package static let courier = Option(
    "--to", .hostPort, in: [Verb.listen], group: .connection, scope: .named("listen-to"),
    default: "localhost:5223", note: "where the service of --data listens, or localhost:5223",
    repeats: true,
    help:
      "The service's listener for devices. May be repeated: further addresses, used when one fails."
  )
  package static let authority = Option(
    "--authority", .file, in: [Verb.send, .listen, .doctor], group: .connection,
    note:
      "authority/service.crt in the data directory; the system's for Apple and --server-certificate",
    help:
      "The certificate of the authority that signed the service's, or `system` for the system's authorities."
  )
  package static let timeout = Option(
    "--timeout", .seconds(1...600), in: [Verb.send, .doctor], group: .connection, default: "30",
    help: "How long to wait for the connection and the response.")

  package static let providerKey = Option(
    "--key", .file, in: providers, group: .credentials,
    note: "keys/KEY-ID.p8 in the data directory",
    help: "The provider key that signs tokens.")
  package static let keyID = Option(
    "--key-id", .keyID, in: providers, group: .credentials,
    note: "the key in the data directory that fits",
    help:
      "The key's id, 10 letters and digits, which tokens name as `kid`. The file name of the key contains it: "
      + "AuthKey_ID.p8 from Apple, ID.p8 from `apus key`.")
  package static let team = Option(
    "--team", .teamID, in: providers, group: .credentials, note: "the key's team",
    help: "The team that the key belongs to.")
  package static let providerCertificate = Option(
    "--certificate", .file, in: [Verb.send, .doctor], group: .credentials,
    help: "A provider's certificate, instead of a key.")
  package static let providerCertificateKey = Option(
    "--certificate-key", .file, in: [Verb.send, .doctor], group: .credentials,
    help: "The private key of that certificate.")

  package static let topic = Option(
    "--topic", .topic, in: [Verb.send, .doctor], group: .message,
    note: "the data directory's only app",
    help: "The app's bundle id, with the suffix that some push types need.")
  package static let token = Option(
    "--token", .deviceToken, in: [Verb.send], group: .message, scope: .flagOnly, isRequired: true,
    alternatives: ["--tokens", "--channel", "--device", "--tag", "--all"],
    help: "The device token issued to the app.")
  package static let channel = message(
    "--channel", .channelID,
    "Send a broadcast to the subscribers of this channel instead; --topic is then the bundle id.")
  package static let alert = message("--alert", .anyText("TEXT"), "The text of the alert.")
  package static let title = message(
    "--title", .anyText("TEXT"), "The title, shown above the text.")
  package static let subtitle = message(
    "--subtitle", .anyText("TEXT"), "The subtitle, between title and text.")
  package static let badge = message(
    "--badge", .integer("N", 0...999_999_999), "The number on the app's icon; 0 removes it.")
  package static let sound = message(
    "--sound", .text("NAME"), "The sound to play; `default` is the device's own.")
  package static let contentAvailable = message(
    "--content-available", .flag, "Wake the app in the background.")
  package static let payload = message(
    "--payload", .json, "The whole payload, instead of the options above.")
  package static let payloadFile = message(
    "--payload-file", .file, "A file with the whole payload; - is standard input.")
  package static let pushType = Option(
    "--push-type", .pushType, in: [Verb.send], group: .message, scope: .flagOnly,
    note: "liveactivity to a channel, background with --content-available alone, else alert",
    help: "The push type of the notification.")
  package static let priority = message(
    "--priority", .priority,
    "10 delivers at once, 5 saves battery, 1 does not wake the device.")
  package static let expiration = message(
    "--expiration", .expiration,
    "How long the service stores the notification for an offline device.")
  package static let collapseID = message(
    "--collapse-id", .collapseID, "A newer notification with the same id replaces this one.")
  package static let id = message(
    "--id", .notificationID, "The notification's id; without it the service makes one.")

  private static func message<Value>(
    _ flag: String, _ syntax: ValueSyntax<Value>, _ help: String
  ) -> Option<Value> {
    Option(flag, syntax, in: [Verb.send], group: .message, scope: .flagOnly, help: help)
  }

  // MARK: listen

  package static let deviceCertificate = Option(
    "--certificate", .file, in: [Verb.listen], group: .device, scope: .named("device-certificate"),
    help: "The device's certificate, from `apus device add`.")
  package static let deviceKey = Option(
    "--key", .file, in: [Verb.listen], group: .device, scope: .named("device-key"),
    help: "The private key of that certificate.")
  package static let topics = Option(
    "--topic", .topic, in: [Verb.listen], group: .device, note: "the data directory's only app",
    repeats: true, help: "An app to register. May be repeated.")
  package static let listenedChannels = Option(
    "--channel", .channelID, in: [Verb.listen], group: .device, scope: .flagOnly, repeats: true,
    help:
      "A channel of the only app to subscribe to. May be repeated; all other subscriptions of the device end."
  )
  package static let keepAlive = Option(
    "--keep-alive", .seconds(0...86_400), in: [Verb.listen], group: .device, default: "900",
    help:
      "How long the connection may be silent before the device sends a keep-alive; 0 for never. Use less than the "
      + "idle timeout of any NAT on the path.")
  package static let strings = Option(
    "--strings", .file, in: [Verb.listen], group: .device, scope: .flagOnly,
    help: "A JSON object with the app's texts, for payloads that refer to them by key (loc-key).")
  package static let unregister = Option(
    "--unregister", .topic, in: [Verb.listen], group: .device, scope: .flagOnly, repeats: true,
    help: "An app to unregister; without --topic the command then exits. May be repeated.")
  package static let count = Option(
    "--count", .integer("N", 1...1_000_000_000), in: [Verb.listen], group: .device,
    scope: .flagOnly, help: "Exit after N notifications.")
  package static let tokenFile = Option(
    "--token-file", .file, in: [Verb.listen], group: .device, scope: .flagOnly,
    help: "Also write the tokens to this file, one per line, in the order of the topics.")

  /// In the order of the help.
  package static let all: [OptionDescription] =
    [
      token.description, channel.description, topic.description, alert.description,
      title.description, subtitle.description, badge.description, sound.description,
      contentAvailable.description, payload.description, payloadFile.description,
      pushType.description, priority.description,
      expiration.description, collapseID.description, id.description,
    ] + SendOptions.all + GroupOptions.descriptions + ChannelOptions.descriptions + TokenOptions.all
    + DeviceOptions.all + [
      provider.description, courier.description, authority.description, timeout.description,
      providerKey.description, keyID.description, team.description,
      providerCertificate.description, providerCertificateKey.description,
      http2Listen.description, http2DevelopmentListen.description,
      courierListen.description, courierDevelopmentListen.description,
      gatewayListen.description, gatewayDevelopmentListen.description,
      feedbackListen.description, feedbackDevelopmentListen.description,
      channelsListen.description, channelsDevelopmentListen.description,
      proxyFrom.description, serverCertificate.description,
      workers.description, noInBandCertificates.description, allowES512.description,
      compactTLS.description,
      unregisterGrace.description, linger.description, tokenRate.description,
      tokenBurst.description, ledger.description,
      ledgerDays.description, ledgerMegabytes.description, deviceCacheMegabytes.description,
      memoryMegabytes.description, webhookMegabytes.description, relayMegabytes.description,
      relayHours.description, storeCacheMegabytes.description,
      StoreOptions.store.description, StoreOptions.singleDatabase.description,
      ephemeral.description,
      EnrolmentOptions.enrolment.description, EnrolmentOptions.deviceDays.description,
      shutdown.description,
      name.description, firstTopic.description, teamName.description,
      certifiedTopic.description, extraTopic.description, environment.description,
      certificateRSABits.description, certificateDays.description,
      EnrolmentOptions.codeName.description, EnrolmentOptions.codeTags.description,
      EnrolmentOptions.ownTags.description, EnrolmentOptions.expires.description,
      EnrolmentOptions.uses.description, EnrolmentOptions.list.description,
      EnrolmentOptions.withdraw.description,
      EnrolmentOptions.identity.description, EnrolmentOptions.enroll.description,
      EnrolmentOptions.name.description, EnrolmentOptions.tags.description,
      deviceCertificate.description, deviceKey.description, topics.description,
      listenedChannels.description,
      keepAlive.description, strings.description, unregister.description, count.description,
      tokenFile.description,
      LogOptions.id.description, LogOptions.uniqueID.description, LogOptions.token.description,
      LogOptions.topic.description, LogOptions.device.description, LogOptions.state.description,
      LogOptions.since.description, LogOptions.until.description, LogOptions.limit.description,
      LogOptions.follow.description, LogOptions.refused.description,
      LogOptions.counts.description,
      LogOptions.export.description,
      LogOptions.by.description,
    ] + ClusterOptions.descriptions + DevOptions.all + FeedbackOptions.all + TrustOptions.all
    + UpstreamOptions.all + [UpstreamOptions.examined.description]
    + AdminOptions.all + [
      data.description, configuration.description, json.description, logFormat.description,
      logLevel.description,
    ]
}

package enum LogFormat: Sendable { case text, json }
package enum LogLevel: Sendable { case debug, info, notice, warning, error }

extension Invocation {
  /// Milliseconds of silence after which `apus listen` pings the service; 0 for never.
  package var keepAliveMilliseconds: UInt64 { UInt64(value(ApusOptions.keepAlive)) * 1000 }
}
