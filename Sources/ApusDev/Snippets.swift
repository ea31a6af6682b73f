import ApusModel

/// Code that sends a push to the development service.
package struct Snippet: Sendable {
  /// The programming language and the library.
  package var name: String
  /// For syntax highlighting.
  package var language: String
  package var text: String

  /// Those for other machines begin with how to fetch the files that they use.
  package static func all(_ facts: DevFacts) -> [Snippet] {
    let values = Values(facts)
    return (facts.isForOtherMachines ? [files(values)] : [])
      + [
        curl, aioapns, httpx, pyAPNs2, nodeAPN, apns2, pushy, rpush, php, apnsSwift, legacyPython,
        legacyPHP,
      ].map { $0(values) }
  }

  private static let topicField = "\(HeaderName.apnsTopic.text)"
  private static let typeField = "\(HeaderName.apnsPushType.text)"

  /// What the snippets contain.
  private struct Values {
    let authority: String
    let key: String
    let certificate: String
    let keyID: String
    let team: String
    let topic: String
    let token: String
    let console: String
    let host: String
    let port: UInt16
    let gatewayPort: UInt16
    let url: String
    /// A shell command for the API, without the path.
    let api: String

    init(_ facts: DevFacts) {
      let isElsewhere = facts.isForOtherMachines
      authority = isElsewhere ? DevFacts.CredentialFile.authority.rawValue : facts.authorityFile
      key = isElsewhere ? DevFacts.CredentialFile.key.rawValue : facts.keyFile
      certificate =
        isElsewhere ? DevFacts.CredentialFile.certificate.rawValue : facts.certificateFile
      (keyID, team, topic) = (facts.keyID, facts.team, facts.topics.first ?? "")
      token = facts.deviceToken
      (console, host) = (facts.console, facts.host)
      port = facts.port(.provider, .production) ?? 0
      gatewayPort = facts.port(.gateway, .production) ?? 0
      url = "https://\(facts.authority(port: port))"
      let password =
        facts.password == nil ? "" : "-H \"authorization: Bearer $APUS_DEV_PASSWORD\" "
      api = "curl -s \(password)\(console)/api/v1"
    }
  }

  private static func files(_ values: Values) -> Snippet {
    let lines = DevFacts.CredentialFile.allCases.map { file in
      "\(values.api)/files/\(file.rawValue) > \(file.rawValue)"
    }
    return Snippet(
      name: "files", language: "sh", text: lines.joined(separator: "\n"))
  }

  private static func curl(_ values: Values) -> Snippet {
    let token =
      values.api.replacing("curl -s", with: "curl -s -X POST") + "/tokens/provider?format=text"
    return Snippet(
      name: "curl", language: "sh",
      text: """
        BEARER=$(\(token))
        curl --http2 --cacert \(DevFacts.quoted(values.authority)) \\
          -H "authorization: bearer $BEARER" \\
          -H '\(topicField): \(values.topic)' -H '\(typeField): alert' \\
          -d '{"aps":{"alert":{"title":"Hello","body":"World"}}}' \\
          \(values.url)/3/device/\(values.token)
        """)
  }

  private static func aioapns(_ values: Values) -> Snippet {
    Snippet(
      name: "Python, aioapns", language: "python",
      text: """
        import asyncio, ssl
        from aioapns import APNs, NotificationRequest, PushType
        from aioapns.connection import APNsProductionClientProtocol

        APNsProductionClientProtocol.APNS_SERVER = "\(values.host)"
        APNsProductionClientProtocol.APNS_PORT = \(values.port)

        async def main():
            apns = APNs(
                key=open("\(values.key)").read(), key_id="\(values.keyID)",
                team_id="\(values.team)", topic="\(values.topic)",
                ssl_context=ssl.create_default_context(cafile="\(values.authority)"),
            )
            result = await apns.send_notification(NotificationRequest(
                device_token="\(values.token)",
                message={"aps": {"alert": "Hello"}}, push_type=PushType.ALERT,
            ))
            print(result.status)

        asyncio.run(main())
        """)
  }

  private static func httpx(_ values: Values) -> Snippet {
    Snippet(
      name: "Python, httpx", language: "python",
      text: """
        import ssl, time
        import httpx, jwt  # httpx[http2] and pyjwt[crypto]

        bearer = jwt.encode(
            {"iss": "\(values.team)", "iat": int(time.time())},
            open("\(values.key)").read(), algorithm="ES256",
            headers={"kid": "\(values.keyID)"})
        context = ssl.create_default_context(cafile="\(values.authority)")
        with httpx.Client(http2=True, verify=context) as client:
            response = client.post(
                "\(values.url)/3/device/\(values.token)",
                headers={
                    "authorization": f"bearer {bearer}", "\(typeField)": "alert",
                    "\(topicField)": "\(values.topic)"},
                json={"aps": {"alert": "Hello"}})
            print(response.status_code)
        """)
  }

  private static func pyAPNs2(_ values: Values) -> Snippet {
    Snippet(
      name: "Python, apns2", language: "python",
      text: """
        from apns2.client import APNsClient
        from apns2.credentials import TokenCredentials
        from apns2.payload import Payload
        from hyper.tls import init_context

        APNsClient.LIVE_SERVER = "\(values.host)"
        APNsClient.DEFAULT_PORT = \(values.port)
        credentials = TokenCredentials(
            "\(values.key)", auth_key_id="\(values.keyID)", team_id="\(values.team)")
        credentials._Credentials__ssl_context = init_context(cert_path="\(values.authority)")
        APNsClient(credentials).send_notification(
            "\(values.token)",
            Payload(alert="Hello"), "\(values.topic)")
        """)
  }

  private static func nodeAPN(_ values: Values) -> Snippet {
    Snippet(
      name: "Node, node-apn", language: "javascript",
      text: """
        const apn = require("@parse/node-apn")
        const fs = require("fs")

        const provider = new apn.Provider({
          address: "\(values.host)", port: \(values.port),
          token: {
            key: "\(values.key)", keyId: "\(values.keyID)", teamId: "\(values.team)",
          },
          ca: [fs.readFileSync("\(values.authority)")],
        })
        const note = new apn.Notification({ alert: "Hello", topic: "\(values.topic)" })
        provider.send(note, "\(values.token)")
          .then((result) => console.log(result))
          .finally(() => provider.shutdown())
        """)
  }

  private static func apns2(_ values: Values) -> Snippet {
    Snippet(
      name: "Go, apns2", language: "go",
      text: """
        authority, _ := os.ReadFile("\(values.authority)")
        roots := x509.NewCertPool()
        roots.AppendCertsFromPEM(authority)
        key, _ := token.AuthKeyFromFile("\(values.key)")
        client := apns2.NewTokenClient(&token.Token{
          AuthKey: key, KeyID: "\(values.keyID)", TeamID: "\(values.team)",
        })
        client.Host = "\(values.url)"
        client.HTTPClient.Transport = &http2.Transport{
          TLSClientConfig: &tls.Config{RootCAs: roots},
        }
        response, err := client.Push(&apns2.Notification{
          Topic: "\(values.topic)",
          DeviceToken: "\(values.token)",
          Payload: []byte(`{"aps":{"alert":"Hello"}}`),
        })
        """)
  }

  private static func pushy(_ values: Values) -> Snippet {
    Snippet(
      name: "Java, Pushy", language: "java",
      text: """
        ApnsClient client = new ApnsClientBuilder()
            .setApnsServer("\(values.host)", \(values.port))
            .setTrustedServerCertificateChain(new File("\(values.authority)"))
            .setSigningKey(ApnsSigningKey.loadFromPkcs8File(
                new File("\(values.key)"), "\(values.team)", "\(values.keyID)"))
            .build();
        String payload = new SimpleApnsPayloadBuilder().setAlertBody("Hello").build();
        System.out.println(client.sendNotification(new SimpleApnsPushNotification(
            "\(values.token)",
            "\(values.topic)", payload)).get());
        """)
  }

  private static func rpush(_ values: Values) -> Snippet {
    Snippet(
      name: "Ruby, rpush", language: "ruby",
      text: """
        # In config/initializers/rpush.rb
        require "rpush/daemon"
        Rpush::Daemon::Dispatcher::Apnsp8Http2::URLS[:production] = "\(values.url)"
        # Once, in a console
        app = Rpush::Apnsp8::App.new(
          name: "dev", environment: "production", connections: 1,
          apn_key: File.read("\(values.key)"), apn_key_id: "\(values.keyID)",
          team_id: "\(values.team)", bundle_id: "\(values.topic)")
        app.save!
        Rpush::Apnsp8::Notification.create!(
          app: app, alert: "Hello",
          device_token: "\(values.token)")
        """)
  }

  private static func php(_ values: Values) -> Snippet {
    Snippet(
      name: "PHP, curl", language: "php",
      text: """
        <?php
        $text = fn($bytes) => rtrim(strtr(base64_encode($bytes), "+/", "-_"), "=");
        $claims = $text(json_encode(["alg" => "ES256", "kid" => "\(values.keyID)"])) . "."
            . $text(json_encode(["iss" => "\(values.team)", "iat" => time()]));
        openssl_sign($claims, $der, file_get_contents("\(values.key)"), OPENSSL_ALGO_SHA256);
        // The signature's two integers, of 32 bytes each.
        $r = substr($der, 4, ord($der[3]));
        $s = substr($der, 6 + ord($der[3]));
        $raw = implode(array_map(
            fn($n) => str_pad(ltrim($n, "\\0"), 32, "\\0", STR_PAD_LEFT), [$r, $s]));
        $curl = curl_init("\(values.url)/3/device/\(values.token)");
        curl_setopt_array($curl, [
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2_0,
            CURLOPT_CAINFO => "\(values.authority)",
            CURLOPT_POSTFIELDS => json_encode(["aps" => ["alert" => "Hello"]]),
            CURLOPT_HTTPHEADER => [
                "authorization: bearer $claims." . $text($raw),
                "\(topicField): \(values.topic)", "\(typeField): alert"],
        ]);
        curl_exec($curl);
        echo curl_getinfo($curl, CURLINFO_RESPONSE_CODE), "\\n";
        """)
  }

  private static func apnsSwift(_ values: Values) -> Snippet {
    Snippet(
      name: "Swift, APNSwift", language: "swift",
      text: """
        // APNSwift uses the system's authorities. On Debian, copy \(values.authority)
        // to /usr/local/share/ca-certificates/apus-dev.crt, and run update-ca-certificates as root.
        let configuration = APNSClientConfiguration(
          authenticationMethod: .jwt(
            privateKey: try .init(
              pemRepresentation: String(contentsOfFile: "\(values.key)", encoding: .utf8)),
            keyIdentifier: "\(values.keyID)", teamIdentifier: "\(values.team)"),
          environment: .custom(url: "https://\(values.host)", port: \(values.port)))
        let client = APNSClient(
          configuration: configuration, eventLoopGroupProvider: .createNew,
          responseDecoder: JSONDecoder(), requestEncoder: JSONEncoder())
        try await client.sendAlertNotification(
          .init(
            alert: .init(title: .raw("Hello")), expiration: .immediately, priority: .immediately,
            topic: "\(values.topic)"),
          deviceToken: "\(values.token)")
        """)
  }

  // MARK: The binary interface

  private static func legacyPython(_ values: Values) -> Snippet {
    Snippet(
      name: "legacy sender, Python", language: "python",
      text: """
        import socket, ssl, struct

        context = ssl.create_default_context(cafile="\(values.authority)")
        context.load_cert_chain("\(values.certificate)")
        token = bytes.fromhex("\(values.token)")
        payload = b'{"aps":{"alert":"Hello"}}'
        with socket.create_connection(("\(values.host)", \(values.gatewayPort))) as plain:
            with context.wrap_socket(plain, server_hostname="\(values.host)") as gateway:
                gateway.sendall(
                    struct.pack("!BH", 0, len(token)) + token
                    + struct.pack("!H", len(payload)) + payload)
        """)
  }

  private static func legacyPHP(_ values: Values) -> Snippet {
    Snippet(
      name: "legacy sender, PHP", language: "php",
      text: """
        <?php
        $context = stream_context_create(["ssl" => [
            "cafile" => "\(values.authority)", "local_cert" => "\(values.certificate)"]]);
        $gateway = stream_socket_client(
            "ssl://\(values.host):\(values.gatewayPort)", $code, $text, 10,
            STREAM_CLIENT_CONNECT, $context);
        $token = hex2bin("\(values.token)");
        $payload = json_encode(["aps" => ["alert" => "Hello"]]);
        fwrite($gateway, pack("Cn", 0, strlen($token)) . $token);
        fwrite($gateway, pack("n", strlen($payload)) . $payload);
        fclose($gateway);
        """)
  }
}
