import ApusModel

/// Code that configures a provider to send to the development service.
package struct Snippet: Sendable {
  package var name: String
  /// For syntax highlighting.
  package var language: String
  package var text: String

  package static func all(_ facts: DevFacts) -> [Snippet] {
    [curl, aioapns, apns2, apnsSwift, pushy, nodeAPN, rpush].map { $0(facts) }
  }

  private static func port(_ facts: DevFacts) -> UInt16 {
    facts.port(.provider, .production) ?? 0
  }

  private static func topic(_ facts: DevFacts) -> String { facts.topics.first ?? "" }

  private static func curl(_ facts: DevFacts) -> Snippet {
    let token =
      "authorization: bearer "
      + "$(curl -s -X POST '\(facts.console)/api/v1/tokens/provider?format=text')"
    return Snippet(
      name: "curl", language: "sh",
      text: """
        curl --http2 --cacert \(DevFacts.quoted(facts.authorityFile)) \\
          -H "\(token)" \\
          -H '\(HeaderName.apnsTopic.text): \(topic(facts))' -H '\(HeaderName.apnsPushType.text): alert' \\
          -d '{"aps":{"alert":{"title":"Hello","body":"World"}}}' \\
          https://localhost:\(port(facts))/3/device/$TOKEN
        """)
  }

  private static func aioapns(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "aioapns", language: "python",
      text: """
        import ssl
        from aioapns import APNs
        from aioapns.connection import APNsProductionClientProtocol

        APNsProductionClientProtocol.APNS_SERVER = "localhost"
        APNsProductionClientProtocol.APNS_PORT = \(port(facts))
        apns = APNs(
            key=open("\(facts.keyFile)").read(), key_id="\(facts.keyID)",
            team_id="\(facts.team)", topic="\(topic(facts))",
            ssl_context=ssl.create_default_context(cafile="\(facts.authorityFile)"),
        )
        """)
  }

  private static func apns2(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "apns2", language: "go",
      text: """
        authority, _ := os.ReadFile("\(facts.authorityFile)")
        roots := x509.NewCertPool()
        roots.AppendCertsFromPEM(authority)
        key, _ := token.AuthKeyFromFile("\(facts.keyFile)")
        client := apns2.NewTokenClient(&token.Token{
          AuthKey: key, KeyID: "\(facts.keyID)", TeamID: "\(facts.team)",
        })
        client.Host = "https://localhost:\(port(facts))"
        client.HTTPClient.Transport = &http2.Transport{
          TLSClientConfig: &tls.Config{RootCAs: roots},
        }
        // Topic: "\(topic(facts))"
        """)
  }

  private static func apnsSwift(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "APNSwift", language: "swift",
      text: """
        // APNSwift uses the system's authorities. On Debian, copy \(facts.authorityFile)
        // to /usr/local/share/ca-certificates/apus-dev.crt, and run update-ca-certificates as root.
        let configuration = APNSClientConfiguration(
          authenticationMethod: .jwt(
            privateKey: try .init(
              pemRepresentation: String(contentsOfFile: "\(facts.keyFile)", encoding: .utf8)),
            keyIdentifier: "\(facts.keyID)", teamIdentifier: "\(facts.team)"),
          environment: .custom(url: "https://localhost", port: \(port(facts))))
        let client = APNSClient(
          configuration: configuration, eventLoopGroupProvider: .createNew,
          responseDecoder: JSONDecoder(), requestEncoder: JSONEncoder())
        // Topic: "\(topic(facts))"
        """)
  }

  private static func pushy(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "Pushy", language: "java",
      text: """
        ApnsClient client = new ApnsClientBuilder()
            .setApnsServer("localhost", \(port(facts)))
            .setTrustedServerCertificateChain(new File("\(facts.authorityFile)"))
            .setSigningKey(ApnsSigningKey.loadFromPkcs8File(
                new File("\(facts.keyFile)"), "\(facts.team)", "\(facts.keyID)"))
            .build();
        // Topic: "\(topic(facts))"
        """)
  }

  private static func nodeAPN(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "node-apn", language: "javascript",
      text: """
        const provider = new apn.Provider({
          address: "localhost", port: \(port(facts)),
          token: { key: "\(facts.keyFile)", keyId: "\(facts.keyID)", teamId: "\(facts.team)" },
          ca: [fs.readFileSync("\(facts.authorityFile)")],
        })
        // note.topic = "\(topic(facts))"
        """)
  }

  private static func rpush(_ facts: DevFacts) -> Snippet {
    Snippet(
      name: "rpush", language: "ruby",
      text: """
        # In config/initializers/rpush.rb
        require "rpush/daemon"
        Rpush::Daemon::Dispatcher::Apnsp8Http2::URLS[:production] = "https://localhost:\(port(facts))"
        # Once, in a console
        app = Rpush::Apnsp8::App.new(
          name: "dev", environment: "production", connections: 1,
          apn_key: File.read("\(facts.keyFile)"), apn_key_id: "\(facts.keyID)",
          team_id: "\(facts.team)", bundle_id: "\(topic(facts))")
        app.save!
        """)
  }
}
