import ApusTLS
import Testing

@Suite("TLS certificates")
struct CertificateTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func connect(
    device: TLSIdentity?, authorities: [UInt8]? = nil, version: TLSVersion = .v1_3,
    verificationTime: Int64? = nil
  ) throws -> Pair {
    try Pair.connected(
      certificates.clientConfiguration {
        $0.identity = device
        $0.maximumVersion = version
      },
      certificates.serverConfiguration {
        $0.clientCertificates = .requested(
          authoritiesPEM: authorities ?? certificates.authority)
        $0.verificationTime = verificationTime
      })
  }

  @Test("A client may omit its certificate", arguments: [TLSVersion.v1_2, .v1_3])
  func absent(version: TLSVersion) throws {
    let pair = try connect(device: nil, version: version)
    #expect(pair.server.connection.isEstablished)
    #expect(pair.server.connection.peerCertificateDER == nil)
  }

  @Test(
    "A certificate of the authority is accepted and available", arguments: [TLSVersion.v1_2, .v1_3])
  func valid(version: TLSVersion) throws {
    let pair = try connect(device: certificates.device, version: version)
    #expect(pair.server.connection.isEstablished)
    #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
    #expect(pair.client.connection.peerCertificateDER == der(certificates.server))
  }

  @Test("A server that requests no certificate gets none")
  func notRequested() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.identity = certificates.device },
      certificates.serverConfiguration())
    #expect(pair.server.connection.isEstablished)
    #expect(pair.server.connection.peerCertificateDER == nil)
  }

  @Test(
    "A certificate by an intermediate authority is accepted, up to the root or the intermediate")
  func intermediate() throws {
    for authorities in [certificates.authority, certificates.intermediate] {
      let pair = try connect(device: certificates.deviceByIntermediate, authorities: authorities)
      #expect(pair.server.connection.isEstablished)
    }
  }

  // Alerts: RFC 8446, section 6.2.
  @Test(
    "A certificate that does not verify ends the handshake with its alert",
    arguments: [
      (
        \TestCertificates.deviceOfOtherAuthority, UInt8(48),
        "unable to get local issuer certificate"
      ),
      (\TestCertificates.expiredDevice, 45, "certificate has expired"),
      (\TestCertificates.serverOnlyDevice, 43, "unsuitable certificate purpose"),
    ] as [(any KeyPath<TestCertificates, TLSIdentity> & Sendable, UInt8, String)],
    [TLSVersion.v1_2, .v1_3])
  func invalid(
    device: (any KeyPath<TestCertificates, TLSIdentity> & Sendable, UInt8, String),
    version: TLSVersion
  ) throws {
    let pair = try connect(device: certificates[keyPath: device.0], version: version)
    #expect(pair.server.failure == .certificateRejected(device.2))
    #expect(pair.server.completions == 0)
    #expect(pair.client.failure == .alertReceived(device.1))
  }

  @Test("A certificate from the future is rejected with bad_certificate")
  func notYetValid() throws {
    let pair = try connect(device: certificates.device, verificationTime: 1_000_000_000)
    #expect(pair.server.failure == .certificateRejected("certificate is not yet valid"))
    #expect(pair.client.failure == .alertReceived(42))
  }

  @Test(
    "A client accepts a server only for the names in its certificate",
    arguments: [
      ("push.example.com", true), ("PUSH.example.com", true), ("localhost", true),
      ("a.wild.example.com", true), ("127.0.0.1", true), ("a.b.wild.example.com", false),
      ("wild.example.com", false), ("example.com", false), ("127.0.0.2", false), ("::1", false),
      ("server", false),
    ])
  func host(name: String, isAccepted: Bool) throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.serverName = name },
      certificates.serverConfiguration())
    #expect(pair.client.connection.isEstablished == isAccepted)
    let isAddress = name.contains(":") || name.hasPrefix("127")
    #expect(pair.server.connection.requestedServerName == (isAddress ? nil : name))
    if !isAccepted {
      let reason = isAddress ? "IP address mismatch" : "hostname mismatch"
      #expect(pair.client.failure == .certificateRejected(reason))
      #expect(pair.server.failure == .alertReceived(42))
    }
  }

  @Test(
    "A connection can have another server name than its context",
    arguments: [
      ("push.example.com", true), ("127.0.0.1", true), ("other.example.com", false),
      ("127.0.0.2", false),
    ])
  func otherName(name: String, isAccepted: Bool) throws {
    // The certificate contains neither of the contexts' names.
    for first in ["first.example.com", "192.0.2.1"] {
      let pair = try Pair(
        client: TLSContext(client: certificates.clientConfiguration { $0.serverName = first }),
        server: TLSContext(server: certificates.serverConfiguration()))
      try pair.client.connection.use(serverName: name)
      pair.client.start()
      pair.exchange()
      #expect(pair.client.connection.isEstablished == isAccepted)
      let isAddress = name.hasPrefix("127")
      #expect(pair.server.connection.requestedServerName == (isAddress ? nil : name))
      #expect(throws: TLSError.self) { try pair.client.connection.use(serverName: "a\0b") }
    }
  }

  @Test("A client rejects a server of another authority, unless told to accept everyone")
  func untrustedServer() throws {
    let refused = try Pair.connected(
      certificates.clientConfiguration {
        $0.trustRoots = .authorities(PEM: certificates.otherAuthority)
      }, certificates.serverConfiguration())
    #expect(
      refused.client.failure == .certificateRejected("unable to get local issuer certificate"))
    #expect(refused.server.failure == .alertReceived(48))

    let system = try Pair.connected(
      certificates.clientConfiguration { $0.trustRoots = .system },
      certificates.serverConfiguration())
    #expect(!system.client.connection.isEstablished)

    let careless = try Pair.connected(
      certificates.clientConfiguration {
        $0.trustRoots = .authorities(PEM: certificates.otherAuthority)
        $0.serverName = nil
        $0.insecureSkipVerify = true
      }, certificates.serverConfiguration())
    #expect(careless.client.connection.isEstablished)
  }

  @Test("A server uses the identity that the client asks for")
  func serverNames() throws {
    let server = certificates.serverConfiguration {
      $0.serverNameIdentities = ["named.example.com": certificates.namedServer]
      $0.applicationProtocols = ["h2"]
      $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
    }
    for (name, identity) in [
      ("named.example.com", certificates.namedServer),
      ("Named.Example.Com", certificates.namedServer),
      ("push.example.com", certificates.server), ("127.0.0.1", certificates.server),
    ] {
      let pair = try Pair.connected(
        certificates.clientConfiguration {
          $0.serverName = name
          $0.identity = certificates.device
          $0.applicationProtocols = ["h2"]
        }, server)
      #expect(pair.client.connection.isEstablished)
      #expect(pair.client.connection.peerCertificateDER == der(identity))
      #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
      #expect(pair.server.connection.negotiatedProtocol == "h2")
    }
  }

  @Test("An invalid configuration is rejected, and the error names the part")
  func configurations() throws {
    let good = certificates.server
    let sealed = try certificates.bytes("sealed.key")
    let noise = Array("no certificate".utf8)
    var damaged = good.certificateChainPEM
    damaged[100] = UInt8(ascii: "!")

    func refusal(_ change: (inout TLSServerConfiguration) -> Void) -> String {
      do {
        _ = try TLSContext(server: certificates.serverConfiguration(change))
        return "accepted"
      } catch { return error.description }
    }
    #expect(
      refusal { $0.identity.certificateChainPEM = noise }
        == "server certificate: no certificate in PEM form (no start line)")
    #expect(
      refusal { $0.identity.certificateChainPEM = [] }
        == "server certificate: no certificate in PEM form (no start line)")
    #expect(
      refusal { $0.identity.certificateChainPEM = damaged }.hasPrefix(
        "server certificate: certificate 1 is damaged: "))
    #expect(
      refusal { $0.identity.certificateChainPEM = good.certificateChainPEM + damaged }.hasPrefix(
        "server certificate: certificate 2 is damaged: "))
    #expect(
      refusal { $0.identity.privateKeyPEM = certificates.device.privateKeyPEM }
        == "server key does not match the certificate: key values mismatch")
    #expect(refusal { $0.identity.privateKeyPEM = sealed }.hasPrefix("server key: no usable"))
    #expect(refusal { $0.identity.privateKeyPEM = [] }.hasPrefix("server key: no usable"))
    #expect(
      refusal {
        $0.serverNameIdentities["x.example"] = TLSIdentity(
          certificateChainPEM: noise, privateKeyPEM: noise)
      }.hasPrefix("server x.example certificate:"))
    #expect(
      refusal { $0.clientCertificates = .requested(authoritiesPEM: noise) }.hasPrefix(
        "client certificate authorities: no certificate"))
    #expect(refusal { $0.applicationProtocols = [""] }.contains("1 to 255 bytes"))
    #expect(refusal { $0.acceptsClientsWithoutALPN = false }.contains("ALPN"))
    #expect(
      refusal {
        $0.minimumVersion = .v1_3; $0.maximumVersion = .v1_2
      }.contains("range"))
    #expect(refusal { $0.ticketLifetimeSeconds = 0 }.contains("ticket lifetime"))
    #expect(refusal { _ in } == "accepted")
    #expect(throws: TLSError.self) {
      try TLSContext(client: certificates.clientConfiguration { $0.serverName = nil })
    }
  }
}
